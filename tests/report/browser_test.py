"""Opens pages that `locant` makes in a headless Chromium, wide and narrow, light and dark, and fails on what a
reader would stumble over: script errors, missing pictures, scrolling to the side, letters too pale or too small.

usage: browser_test.py LOCANT_BINARY RECORDS... [--pictures FOLDER]
Without Chromium it ends with code 77, "skipped". First it looks at broken pages: each fault must be found.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import chromium

SIZES = {"desktop": (1280, 800, False), "phone": (390, 844, True), "small phone": (320, 568, True)}
EXAMINE = (pathlib.Path(__file__).parent / "examine.js").read_text()

SOUND = "<p>a sound page</p><p>with words</p><p>and more</p>"
SVG = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 900 300' width='900' height='300'>" \
      "<text x='9' y='99' font-size='{}'>word</text></svg>"
BROKEN = {  # a fault, and the complaint that must name it
    "<script>nonsense()</script>": "script error",
    "<img alt='x' src='data:image/png;base64,AAAA'>": "picture is missing",
    "<img alt='x' src='nowhere.png'>": "picture is missing",
    f"<img alt='x' style='max-width:100%' src=\"{SVG.format(5)}\">": "letters of",
    f"<img style='max-width:100%' src=\"{SVG.format(40)}\">": "picture without words",
    "<div style='width:3000px'>wide</div>": "scrolls to the side",
    "<pre>" + "long " * 400 + "</pre>": "scrolls to the side",
    "<p style='color:#bbb;background:#fff'>pale</p>": "contrast",
    "<div style='background:#222'><p style='color:#000'>dark on dark</p></div>": "contrast",
    "<p style='font-size:7px'>tiny</p>": "letters of 7",
    "<a href='#nowhere'>away</a>": "leads nowhere",
    "<img alt='x' src='http://localhost:9/x.png'>": "asks the network",
}


def wrapped(body):
    return ("<!doctype html><html><head><meta charset=utf-8><meta name=viewport content='width=device-width, "
            f"initial-scale=1'><title>t</title></head><body style='background:#fff;color:#111'>{SOUND}{body}</body></html>")


def complaints(browser, page, pictures=None):
    """{(size, colours): [complaint]} of a page."""
    found = {}
    browser.open(page.resolve().as_uri())
    for size, (width, height, phone) in SIZES.items():
        for dark in (False, True):
            browser.look(width, height, dark, phone)
            found[size, "dark" if dark else "light"] = browser.run(EXAMINE)
            if pictures:
                browser.picture(pictures / f"{page.stem}-{size}-{'dark' if dark else 'light'}.png".replace(" ", "-"))
    said = browser.complaints()
    if said:
        found["any", "any"] = said
    return found


def made_pages(locant, records, work):
    """A report of each file of records (of all in a folder), and what `locant show` makes of every scheme."""
    def said(*command):
        return subprocess.run([locant, *command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout

    # A run of its own, a moment long: tasks that were not learned, an encoder, further training.
    text = work / "text.txt"
    text.write_text("in the beginning was a word, and then another came to pass over many days.\n" * 400)
    said("compare", "--preset", "smoke", "--corpus", text, "--schemes", "rope,alibi,nope,t5", "--steps", "12", "--task-steps", "4",
         "--seeds", "2", "--tasks", "language_model,fine_tuning,recall,reverse_encoder", "--out", work / "run", "--no-report")
    files = [work / "run" / "records.jsonl"]
    for path in map(pathlib.Path, records):
        files += sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    pages = []
    for number, file in enumerate(files):
        pages.append(work / f"report-{number}.html")
        said("report", file, "--out", pages[-1])
    names = [json.loads(line)["name"] for line in said("schemes", "--json").splitlines()]
    shown = [[name, "--length", "32"] for name in names] + [
        ["t5", "--full", "--length", "24", "--compare", "deberta"],
        ["rope", "--length", "64", "--compare", "xpos"],
        ["sinusoidal", "--length", "16", "--compare", "alibi"],
        *([name, "--example"] for name in ("alibi", "sinusoidal", "rope", "shaw")),
        *([name, "--permute", "the dog bit the man"] for name in ("nope", "rope", "music_transformer"))]
    for number, command in enumerate(shown):
        pages.append(work / f"show-{number}-{'-'.join(w.strip('-') for w in command if ' ' not in w)}.html")
        said("show", *command, "--html", pages[-1])
    return pages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("locant")
    parser.add_argument("records", nargs="+")
    parser.add_argument("--pictures", type=pathlib.Path)
    args = parser.parse_args()
    program = chromium.find()
    if not program:
        print("skipped: no Chromium here (Debian: apt-get install chromium, or ./run test-report)")
        return 77
    failures = 0
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium.Browser(program) as browser:
        work = pathlib.Path(folder)
        page = work / "page.html"
        page.write_text(wrapped(""))
        for place, found in complaints(browser, page).items():
            failures += len(found)
            print("FAILED: a sound page is complained about:", place, found) if found else None
        for body, expected in BROKEN.items():
            page.write_text(wrapped(body))
            found = [c for some in complaints(browser, page).values() for c in some]
            if not any(expected in c for c in found):
                failures += 1
                print(f"FAILED: the fault was not found: {body[:60]!r} should say {expected!r}, got {found}")

        pages = made_pages(args.locant, args.records, work)
        for page in pages:
            for place, found in complaints(browser, page, args.pictures).items():
                for complaint in found:
                    failures += 1
                    print(f"FAILED: {page.stem}, {', '.join(place)}: {complaint}")
    print(f"{failures} failed" if failures else f"all {len(pages)} pages are fine, {2 * len(SIZES)} looks each")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
