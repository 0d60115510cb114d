// What is wrong with the page that is open, by kind: what makes it scroll sideways, text of low contrast, images without
// words, raw backticks, and names that are cut.
() => {
  const BLOCKED = "script, style, template, noscript, option, svg";
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();

  // [red, green, blue, alpha] of any CSS color, each from 0 to 1.
  function rgba(color) {
    if (!parsed.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      parsed.set(color, [...canvas.getImageData(0, 0, 1, 1).data].map((one) => one / 255));
    }
    return parsed.get(color);
  }

  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));

  function chain(element) {
    const found = [];
    for (let one = element; one; one = one.parentElement) found.unshift(one);
    return found;
  }

  function background(element) {
    const canvasColor = getComputedStyle(document.documentElement).colorScheme === "dark" ? [0, 0, 0] : [1, 1, 1];
    return chain(element).reduce((below, one) => over(rgba(getComputedStyle(one).backgroundColor), below), canvasColor);
  }

  // WCAG 2.2, "relative luminance" and "contrast ratio".
  function luminance(color) {
    const [red, green, blue] = color.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  }

  function contrast(color, below) {
    const [dark, light] = [luminance(color), luminance(below)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  // Large text is 24 px, or 18.66 px in bold.
  function needed(style) {
    const size = parseFloat(style.fontSize);
    return size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  }

  function weakness(element, style, text) {
    const below = background(element);
    const opacity = chain(element).reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
    const color = rgba(style.color);
    const ratio = contrast(over([...color.slice(0, 3), color[3] * opacity], below), below);
    const enough = opacity === 0 || ratio >= needed(style);
    return enough ? [] : [`${ratio.toFixed(2)} for "${text.trim().slice(0, 40)}" in <${element.localName} class="${element.className}">`];
  }

  function visibleTexts() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (walker.currentNode.data.trim() && !element.closest(BLOCKED) && element.checkVisibility({ visibilityProperty: true })) {
        found.push([walker.currentNode.data, element]);
      }
    }
    return found;
  }

  const describe = (one) => `<${one.localName} class="${one.className}"> ${one.textContent.trim().slice(0, 40)}`;
  const sticksOut = (one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 0.5;
  const isCut = (one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX === "hidden";

  for (const one of document.querySelectorAll("details")) one.open = true;
  const all = [...document.querySelectorAll("body *")];
  const texts = visibleTexts();
  const width = document.scrollingElement.scrollWidth;
  return {
    wide: width > innerWidth ? [`${width} px`, ...all.filter(sticksOut).slice(-5).map(describe)] : [],
    weak: [
      ...texts.flatMap(([text, element]) => weakness(element, getComputedStyle(element), text)),
      ...[...document.querySelectorAll("input[placeholder]")].flatMap((one) =>
        weakness(one, getComputedStyle(one, "::placeholder"), one.placeholder)),
    ],
    wordless: [...document.images].filter((one) => !one.alt.trim()).map((one) => one.outerHTML.slice(0, 120)),
    backticks: texts.filter(([text, one]) => text.includes("`") && !one.closest("code, pre")).map(([text]) => text.trim()),
    cut: all.filter(isCut).map(describe),
  };
}
