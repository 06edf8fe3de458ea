"""Templates and adapters for tests: small, in memory, or in a directory."""

from evrun.training.blobs import Content, write_files
from evrun.training.template import load_template, template_of

MANIFEST = """\
template: {id: kit, version: "1.0"}
exports:
  context: ADAPTER.md
  skills: skills
  agents: roles
structure:
  learnable:
    - path: ADAPTER.md
      format: {text: true, max_bytes: 60}
    - path: notes/**
      format: {max_files: 2}
    - skills
    - roles
  fixed: [lib, RULES.md]
"""

FILES = {
    "adapter.yaml": MANIFEST,
    "ADAPTER.md": "# Do\n",
    "RULES.md": "be kind\n",
    "lib/a.py": "A = 1\n",
}


def files(changed=None):
    """The kit's files with some changed, as `change`."""
    return change({path: Content(text.encode()) for path, text in FILES.items()}, changed or {})


def change(found, changed):
    """Files with some changed, added, or (null) taken away."""
    made = dict(found)
    for path, text in changed.items():
        if text is None:
            made.pop(path, None)
        else:
            made[path] = Content(text if isinstance(text, bytes) else text.encode())
    return made


def kit(more=None):
    """The template whose root these files are."""
    return template_of(files(more), "kit")


def directory_of(place, found):
    """The files in a directory."""
    write_files(place, found)
    return place


def prompt_only():
    """The built-in template."""
    return load_template("prompt-only@1.0")
