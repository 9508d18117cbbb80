// What both demonstrations share: elements without HTML from outside, pictures, and one place that speaks.

// Make an element. Values become text or attributes, never HTML.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Text with <mark> from the API as nodes. All other markup stays text; the API escapes five characters in it.
export function marked(text) {
  return String(text || "").split(/(<mark>.*?<\/mark>)/s).filter(Boolean).map((part) => {
    const inner = /^<mark>(.*)<\/mark>$/s.exec(part);
    return inner ? el("mark", {text: unescape(inner[1])}) : unescape(part);
  });
}

const ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'"};
const unescape = (text) => text.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity]);

// Tell screen readers what changed; the sighted see it.
export function say(text) {
  document.getElementById("status").textContent = text;
}

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

// Call `run` once after the last of several calls.
export function debounced(run, ms) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), ms);
  };
}

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  plant: ["M80 84V46", "M80 56C62 56 54 44 54 30C72 30 80 42 80 56Z", "M80 50C98 50 106 38 106 24C88 24 80 36 80 50Z"],
  tool: ["M58 78L92 44", "M88 26L112 50L100 56L82 38Z"],
  book: ["M80 30C68 22 54 22 44 26V76C54 72 68 72 80 80C92 72 106 72 116 76V26C106 22 92 22 80 30Z", "M80 30V80"],
  kitchenware: ["M50 42H110V66A14 14 0 0 1 96 80H64A14 14 0 0 1 50 66Z", "M110 48H122A8 8 0 0 1 122 62H110", "M66 32V24M80 32V20M94 32V24"],
  toy: ["M54 44H84V74H54Z", "M92 34A20 20 0 1 1 92 74", "M60 44L69 24L78 44"],
  outdoor: ["M38 78L70 30L86 56L96 42L122 78Z", "M62 42L70 50L78 42"],
  course: ["M80 26L124 44L80 62L36 44Z", "M56 54V72C68 82 92 82 104 72V54"],
  article: ["M50 22H110V80H50Z", "M60 36H100M60 48H100M60 58H88M60 68H94"],
};

// Draw a placeholder: the shape tells the kind, the colour comes from the name. No image is loaded.
export function picture(name, kind) {
  let hue = 0;
  for (const sign of name) hue = (hue * 31 + sign.codePointAt(0)) % 360;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 160 100");
  svg.setAttribute("aria-hidden", "true");
  const add = (tag, values) => {
    const part = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(values)) part.setAttribute(key, value);
    svg.append(part);
  };
  add("rect", {width: 160, height: 100, fill: `hsl(${hue} 38% 78%)`});
  add("circle", {cx: 20 + (hue % 120), cy: 20 + (hue % 60), r: 44, fill: `hsl(${(hue + 30) % 360} 42% 84%)`});
  for (const d of SHAPES[kind] || SHAPES.article) {
    const stroke = `hsl(${hue} 45% 26%)`;
    add("path", {d, fill: "none", stroke, "stroke-width": 4, "stroke-linejoin": "round", "stroke-linecap": "round"});
  }
  return svg;
}
