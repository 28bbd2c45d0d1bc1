// Names and keyboard focus for parts that the theme leaves without: read aloud, and scrolled with the arrow keys.
const complete = () => {
  document.querySelectorAll(".md-search[role=dialog]:not([aria-label])").forEach((part) => part.setAttribute("aria-label", "Search"));
  document.querySelectorAll(".md-code__nav").forEach((part, i) => part.setAttribute("aria-label", `Code block ${i + 1}`));
  document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap").forEach((part) => {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  });
};
// Parts of the contents that have the same name are numbered.
const seen = {};
document.querySelectorAll(".md-nav[aria-label]").forEach((part) => {
  const name = part.getAttribute("aria-label").trim();
  seen[name] = (seen[name] ?? 0) + 1;
  if (seen[name] > 1) part.setAttribute("aria-label", `${name} ${seen[name]}`);
});
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
complete();
