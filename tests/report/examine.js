// What a reader would stumble over on this page at this size; a list of complaints. An expression: a promise.
(async () => {
  const complaints = [];
  const say = (what, element) => {
    const text = (element.textContent || element.alt || "").trim().replace(/\s+/g, " ").slice(0, 60);
    complaints.push(`${what}: <${element.tagName.toLowerCase()}> ${text}`);
  };
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const width = document.documentElement.clientWidth;

  // Nothing sticks out of the page, except inside a box that scrolls by itself.
  if (document.documentElement.scrollWidth > width) {
    complaints.push(`scrolls to the side: ${document.documentElement.scrollWidth} of ${width} pixels`);
    for (const e of document.body.querySelectorAll("*")) {
      let inside = e.parentElement;
      while (inside && !/auto|scroll|hidden/.test(getComputedStyle(inside).overflowX)) inside = inside.parentElement;
      if (!inside && e.getBoundingClientRect().right > width + 1) say("sticks out", e);
    }
  }

  // Pictures: loaded, and their letters large enough to read at the size they are shown.
  const luminance = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  };
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + .05) / (y + .05);
  };
  const rgba = (text) => {
    const numbers = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return numbers.length === 3 ? [...numbers, 1] : numbers;
  };
  for (const image of document.images) {
    // A browser takes the picture of the new width some time after the width is new.
    const chosen = image.parentElement.tagName !== "PICTURE" ? null :
      [...image.parentElement.querySelectorAll("source")].find((s) => matchMedia(s.media).matches);
    const wanted = chosen ? chosen.srcset : image.src;
    for (let n = 0; n < 200 && image.currentSrc !== wanted; ++n) await new Promise((go) => setTimeout(go, 25));
    if (image.currentSrc !== wanted) say("picture is another width's", image);
    try { await image.decode(); } catch (e) { /* said below */ }
    if (!image.complete || !image.naturalWidth) { say("picture is missing", image); continue; }
    if (!image.alt) say("picture without words", image);
    const box = image.getBoundingClientRect();
    if (box.width < 40) say("picture has no room", image);
    if (!image.currentSrc.startsWith("data:image/svg+xml")) continue;
    const svg = new DOMParser().parseFromString(await (await fetch(image.currentSrc)).text(), "image/svg+xml");
    if (svg.querySelector("parsererror")) { say("picture is not well-formed", image); continue; }
    const view = (svg.documentElement.getAttribute("viewBox") || "").split(" ").map(Number);
    const scale = box.width / (view[2] || image.naturalWidth);
    let texts = 0;
    for (const text of svg.querySelectorAll("text")) {
      let holder = text;
      while (holder && holder.getAttribute && !holder.getAttribute("font-size")) holder = holder.parentNode;
      const size = parseFloat((holder && holder.getAttribute && holder.getAttribute("font-size")) || 12) * scale;
      if (text.textContent.trim()) { ++texts; if (size < 8.5) { say(`letters of ${size.toFixed(1)} pixels`, image); break; } }
    }
    if (!texts) say("picture without a word in it", image);
  }

  // Letters against what is really behind them. WCAG AA: 4.5, or 3 for large letters.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  let letters = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.nodeValue.trim() || seen.has(element)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    if (!element.getClientRects().length || style.visibility !== "visible") continue;
    ++letters;
    let back = [255, 255, 255, 1];
    const chain = [];
    for (let e = element; e; e = e.parentElement) chain.unshift(rgba(getComputedStyle(e).backgroundColor));
    if (matchMedia("(prefers-color-scheme: dark)").matches &&
        getComputedStyle(document.documentElement).colorScheme.includes("dark")) back = [18, 18, 18, 1];
    for (const c of chain) back = back.map((v, n) => n < 3 ? v * (1 - c[3]) + c[n] * c[3] : 1);
    const ink = rgba(style.color);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    const got = contrast(ink.slice(0, 3).map((v, n) => v * ink[3] + back[n] * (1 - ink[3])), back);
    if (got < needed) say(`contrast ${got.toFixed(2)} of ${needed}`, element);
    if (size < 10) say(`letters of ${size} pixels`, element);
  }
  if (letters < 3) complaints.push("the page is nearly empty");

  // Anchors within the page lead somewhere.
  for (const link of document.querySelectorAll("a[href^='#']")) {
    if (!document.getElementById(link.getAttribute("href").slice(1))) say("link leads nowhere", link);
  }
  return complaints;
})()
