"""A third-party package, installed for one test."""

import os
import textwrap


def install(tmp_path, monkeypatch, group, module, source, names):
    """Install a module by entry points, `name.lower()` for each class, for this process and its children."""
    site = tmp_path / f"{module}-site"
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    points = "\n".join(f"{name.lower()} = {module}:{name}" for name in names)
    (metadata / "entry_points.txt").write_text(textwrap.dedent(f"[{group}]\n{points}\n"))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *([before] if before else [])]))
    monkeypatch.syspath_prepend(str(site))
