// Elements, numbers as text, and the scales of axes: { at(value) -> 0 ... 1, ticks, text(tick) }.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Three digits, no more zeros than needed.
function shown(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

function niceStep(span, count) {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
}

function evenTicks(low, high, count, whole = false) {
  const step = Math.max(niceStep(high - low, count), whole ? 1 : 0);
  const first = Math.ceil(low / step - 1e-9);
  const number = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, number) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function linearScale(low, high, count, whole) {
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  return { at: (value) => (value - low) / (high - low), ticks: evenTicks(low, high, count, whole), text: shown };
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// A power of ten, or 0.
function power(value) {
  const exponent = Math.round(Math.log10(value));
  if (value === 0 || Math.abs(exponent) < 4) return shown(value);
  return "10" + [...String(exponent)].map((digit) => RAISED[digit]).join("");
}

function decades(low, high, count) {
  const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / count));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
}

function logScale(low, high, count) {
  let [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  if (from === to) to += 1;
  return { at: (value) => (Math.log10(value) - from) / (to - from), ticks: decades(from, to, count), text: power };
}

// Logarithmic, but linear from 0 to the decade of the smallest value.
function symlogScale(smallest, high, count) {
  const from = Math.floor(Math.log10(smallest)), to = Math.max(Math.ceil(Math.log10(high)), from + 1), below = 10 ** from;
  const at = (value) => (value < below ? value / below : 1 + Math.log10(value) - from) / (to - from + 1);
  return { at, ticks: [0, ...decades(from, to, count)], text: power };
}
