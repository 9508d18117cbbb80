// The shop. Everything it knows comes from kiosk.js; `kiosk` is the client that the script opened.

import {showCalls} from "./calls.js";
import {FIELDS, nameOf, openList, shownProducts} from "./lists.js";
import {debounced, el, say} from "./page.js";
import {openQuestions} from "./questions.js";
import {openSearch} from "./search.js";

const kiosk = window.kiosk;
// The playground holds a shop and a newspaper. This page shows the shop.
const SCOPE = {fq: "NOT type:article"};
const LOOK = "product_detail_page_view";
const at = (id) => document.getElementById(id);

const showDone = showCalls(kiosk, nameOf);

const search = openSearch(kiosk, at("search"), {
  label: "Search the shop", type: LOOK, scope: SCOPE,
  facets: [{field: "type", name: "Kind"}, {field: "brand", name: "Brand"}],
});

const refreshForYou = openList(at("for-you"), {
  ask: () => kiosk.recommendation.user_to_products({...SCOPE, rows: 8, fl: FIELDS}),
  type: LOOK, name: "For you",
  about: () => (kiosk.session.length ? "The engine ranks the catalog by what you did." : "You are new: the engine takes what many like."),
});

const refreshTrending = openList(at("trending"), {
  ask: () => kiosk.recommendation.user_to_trending({...SCOPE, rows: 4, fl: FIELDS}),
  type: LOOK, about: () => "Many visitors turn to it now.",
});

const departments = el("ul", {class: "chips"});
at("departments").append(departments);
async function refreshDepartments() {
  const reply = await kiosk.recommendation.user_to_categories({...SCOPE, rows: 6, products_per_category: 0});
  if (!reply.ok) return;
  departments.replaceChildren(...reply.data.categories.map(({category, total}) => el("li", {},
    el("button", {type: "button", text: `${category.join(" › ")} (${total})`, onclick: () => search.openCategory(category)}))));
}

// The product that the visitor looks at, and what goes with it.
async function look(productId) {
  const place = at("looked");
  const reply = await kiosk.search.mget({product_ids: [productId], fl: [...FIELDS, "description"]});
  const product = reply.ok ? reply.data.products[0] : null;
  if (!product || !product._found) {
    say("This product is gone.");
    return;
  }
  shownProducts.set(productId, product);
  const button = (text, type, after) => el("button", {
    type: "button", text, data: {kioskProduct: productId, kioskType: type},
    onclick(event) { event.currentTarget.textContent = after; },
  });
  const companions = el("div", {});
  const heading = el("h2", {id: "looked-title", tabindex: "-1", text: product.title});
  place.replaceChildren(
    heading,
    el("p", {text: product.description || ""}),
    el("div", {class: "tools"}, 
      button("Add to cart", "add_to_cart", "In the cart ✓"), button("Like", "like", "Liked ✓"),
      button("Not for me", "dislike", "Noted ✓")),
    el("h3", {text: "Goes with it"}), companions);
  place.hidden = false;
  heading.focus();
  place.scrollIntoView({block: "start"});
  await openList(companions, {
    ask: () => kiosk.recommendation.product_to_products({...SCOPE, product_id: productId, rows: 4, fl: FIELDS}),
    type: LOOK, about: () => `Visitors who turned to “${product.title}” turned to it too, or it resembles it.`,
  })();
}

openQuestions(kiosk, at("questions"), {
  label: "Ask about the products", scope: SCOPE, open: look,
  examples: ["What does the table telescope show?", "How hardy is the fig tree?", "How long does the wind-up lantern give light?"],
});

const refresh = debounced(() => {
  refreshForYou();
  refreshDepartments();
  refreshTrending();
  search.refresh();
}, 60);

// kiosk.js records clicks on `data-kiosk-product`; the page only answers to them.
kiosk.on("interaction", (event) => {
  if (event.type === LOOK) look(event.product_ids[0]);
  if (event.type !== LOOK && event.product_ids) say(`${nameOf(event.product_ids[0])}: ${event.type.replace(/_/g, " ")}.`);
  refresh();
});
at("restart").addEventListener("click", () => {
  kiosk.clearSession();
  at("looked").hidden = true;
  showDone();
  refresh();
  say("Your history is empty again.");
});
refresh();
