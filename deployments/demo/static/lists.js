// Lists of products: cards, what moved since the last answer, and what the API says about each place.

import {copyButton, curlOf} from "./calls.js";
import {el, picture, say} from "./page.js";

export const FIELDS = ["title", "subtitle", "type", "brand", "price", "sale_price", "rating", "tags", "categories", "published_at"];

// Every product that was shown, by id, so that reasons and the history can name it.
export const shownProducts = new Map();
export const nameOf = (productId) => (shownProducts.get(productId) || {title: productId}).title;

const money = (value) => "€ " + value.toFixed(2);

function facts(product) {
  const parts = [];
  const price = product.sale_price || product.price;
  if (typeof price === "number") parts.push(money(price) + (product.sale_price ? ` instead of ${money(product.price)}` : ""));
  if (product.published_at) parts.push(String(product.published_at).slice(0, 10));
  if (product.brand) parts.push(product.brand);
  else if (product.categories) parts.push((product.categories[0] || []).slice(-1)[0]);
  return parts.filter(Boolean).join(" · ");
}

const words = (product) => new Set([
  ...(product.tags || []), ...(product.brand ? [product.brand] : []),
  ...(product.categories || []).map((path) => path[path.length - 1]),
]);

// What a publishable key may know about a place. The score parts need the secret key.
function reasons(product, call, about) {
  const list = [about];
  const score = product._personalization_score;
  if (score !== undefined) list.push(`The engine's score for you is ${score.toFixed(2)} on a scale from 0 to 1.`);
  if (product._search_score !== undefined) list.push(`The words of your search match with ${product._search_score.toFixed(1)}.`);
  if (product._boosted_rules && product._boosted_rules.length) list.push(`A rule moved it: ${product._boosted_rules.join(", ")}.`);
  const mine = words(product);
  const seen = (call.body.additional_interactions || []).flatMap((event) => event.product_ids || []);
  for (const productId of new Set(seen)) {
    const other = shownProducts.get(productId);
    const shared = other && productId !== product.product_id ? [...words(other)].filter((word) => mine.has(word)) : [];
    if (shared.length) list.push(`Like “${other.title}” it has: ${shared.join(", ")}.`);
  }
  return list;
}

function why(product, call, about) {
  const box = el("details", {}, el("summary", {}, "Why here?", el("span", {class: "hidden", text: ` ${product.title}`})));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    box.append(
      el("ul", {}, ...reasons(product, call, about).map((text) => el("li", {text}))),
      el("p", {class: "small", text: "Your server may ask for the parts of the score and the rules, with its secret key:"}),
      copyButton("Copy that curl", () => curlOf(call, {explain: true})));
  });
  return box;
}

// One card. `data-kiosk-product` is all that kiosk.js needs to record the click.
export function card(product, {type, call, about, move}) {
  return el("li", {class: "card" + (move ? " moved" : "")},
    picture(product.title || product.product_id, product.type),
    el("div", {class: "text"},
      el("button", {
        type: "button", class: "name", text: product.title || product.product_id,
        data: {kioskProduct: product.product_id, kioskType: type},
      }),
      el("span", {class: "facts", text: facts(product)}),
      why(product, call, about)),
    move ? el("span", {class: "move", text: move}) : null);
}

// Return how far each product moved since the last answer: "new", "▲ 2", or nothing.
export function movesOf(before, after) {
  const places = new Map(before.map((productId, at) => [productId, at]));
  return after.map((productId, at) => {
    if (!before.length) return "";
    if (!places.has(productId)) return "new";
    const up = places.get(productId) - at;
    return up > 0 ? `▲ ${up}` : "";
  });
}

// A list that asks again whenever `refresh` is called, and shows what changed; `refresh` returns the ids of the list.
export function openList(place, {ask, type, about, name}) {
  const list = el("ul", {class: "cards"});
  const note = el("p", {class: "note", hidden: true});
  let last = [];
  let turn = 0;
  place.append(list, note);
  return async function refresh() {
    const mine = ++turn;
    const reply = await ask();
    if (mine !== turn) return last; // a later click was answered already
    note.hidden = reply.ok;
    if (!reply.ok) {
      note.textContent = `No list: ${reply.message}`;
      return last;
    }
    const products = reply.data.products || [];
    products.forEach((product) => shownProducts.set(product.product_id, product));
    const ids = products.map((product) => product.product_id);
    const moves = movesOf(last, ids);
    const focused = document.activeElement && list.contains(document.activeElement) && document.activeElement.dataset.kioskProduct;
    list.replaceChildren(...products.map((product, at) => card(product, {type, call: reply.request, about: about(product), move: moves[at]})));
    if (focused) focusOn(list, focused);
    const fresh = moves.filter((move) => move === "new").length;
    if (fresh && name) say(`${name}: ${fresh} of ${ids.length} are new.`);
    last = ids;
    return last;
  };
}

// Keep the place of the keyboard, although the list was written anew.
function focusOn(list, productId) {
  const same = [...list.querySelectorAll("[data-kiosk-product]")].find((one) => one.dataset.kioskProduct === productId);
  const next = same || list.querySelector("[data-kiosk-product]");
  if (next) next.focus({preventScroll: true});
}
