"""links_test.py TREE: every link within the tree leads to a file that is there and, with an anchor, to a heading of it."""
import pathlib
import re
import sys


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def anchors(page):
    """As GitHub makes them of headings: lower case, spaces to hyphens, other marks dropped."""
    headings = re.findall(r"^#+ +(.*)$", without_code(page.read_text()), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page}: {target} is not there"
        elif anchor and anchor not in anchors(file):
            yield f"{page}: {target}: there is no such heading"


def main():
    tree = pathlib.Path(sys.argv[1])
    pages = [p for p in tree.rglob("*.md") if "build" not in p.relative_to(tree).parts[:1]]
    wrong = [w for p in pages for w in broken_links(p)]
    links = sum(len(re.findall(r"\]\([^)\s]+\)", p.read_text())) for p in pages)
    print("\n".join(wrong) or f"{len(pages)} pages, {links} links: all lead somewhere")
    if links < 50:
        sys.exit("hardly any links were found")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
