// The search runs in a worker. Browsers start no worker for a page that was opened from the disk. There this runs the worker's
// script in a hidden frame of the page instead. MkDocs Material knows a replacement by its name, "iframe-worker".
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.inside = new Promise((ready) => {
        frame.onload = () => {
          frame.onload = null;
          const window = frame.contentWindow;
          // What the script sends goes to the page, and not to the frame itself.
          window.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = frame.contentDocument.createElement("script");
          script.src = address;
          script.onload = () => ready(window);
          frame.contentDocument.head.append(script);
        };
      });
      document.documentElement.append(frame);
    }

    async postMessage(data) {
      const window = await this.inside;
      window.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
