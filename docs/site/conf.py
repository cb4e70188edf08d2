# The pages as a folder of static files: python3 -m sphinx -W -c docs/site . build/site
project = "tuck"
author = "the authors of tuck"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.md", "cmake/**.md", "bench/**.md", "examples/**.md", "test/**.md"]
exclude_patterns = ["build"]
myst_heading_anchors = 6
suppress_warnings = ["myst.xref_missing", "ref.myst"]  # links to folders; test/docs checks all links
html_theme = "furo"
html_extra_path = ["index.html"]

CONTENTS = """
```{toctree}
:hidden:
:glob:

docs/guide
docs/python
docs/*
examples/**
bench/**
cmake/**
test/**
CHANGELOG
```
"""


def add_contents(app, page, source):
    if page == root_doc:
        source[0] += CONTENTS


def setup(app):
    app.connect("source-read", add_contents)
