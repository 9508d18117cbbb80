// The shop.

import {at, keepFresh, kiosk, openBothLists, reactionButton, showLooked} from "./demo.js";
import {FIELDS, nameOf, openList, shownProducts} from "./lists.js";
import {el, say} from "./page.js";
import {openQuestions} from "./questions.js";
import {openSearch} from "./search.js";

// The playground holds a shop and a newspaper. This page shows the shop.
const SCOPE = {fq: "NOT type:article"};
const LOOK = "product_detail_page_view";

const search = openSearch(kiosk, at("search"), {
  label: "Search the shop", type: LOOK, scope: SCOPE,
  facets: [{field: "type", name: "Kind"}, {field: "brand", name: "Brand"}],
});

let companions = [];

const refreshLists = openBothLists(SCOPE, {
  above: () => companions,
  rows: 8, type: LOOK,
  aboutYou: () => (kiosk.session.length ? "The engine ranks the catalog by what you did." : "You are new: the engine takes what many like."),
  aboutTrending: () => "Many visitors turn to it now.",
});

const departments = el("ul", {class: "chips"});
at("departments").append(departments);
async function refreshDepartments() {
  const reply = await kiosk.recommendation.user_to_categories({...SCOPE, rows: 6, products_per_category: 0});
  if (!reply.ok) return;
  departments.replaceChildren(...reply.data.categories.map(({category, total}) => el("li", {},
    el("button", {type: "button", text: `${category.join(" › ")} (${total})`, onclick: () => search.openCategory(category)}))));
}

// Show the product that the visitor looks at, and return the ids of the list of what goes with it.
async function look(productId) {
  const reply = await kiosk.search.mget({product_ids: [productId], fl: [...FIELDS, "description"]});
  const product = reply.ok ? reply.data.products[0] : null;
  if (!product || !product._found) {
    say("This product is gone.");
    return [];
  }
  shownProducts.set(productId, product);
  const goesWith = el("div", {});
  showLooked(
    product.title,
    el("p", {text: product.description || ""}),
    el("div", {class: "tools"}, 
      reactionButton(productId, "Add to cart", "add_to_cart", "In the cart ✓"), reactionButton(productId, "Like", "like", "Liked ✓"),
      reactionButton(productId, "Not for me", "dislike", "Noted ✓")),
    el("h3", {text: "Goes with it"}), goesWith);
  return openList(goesWith, {
    ask: () => kiosk.recommendation.product_to_products({...SCOPE, product_id: productId, rows: 4, fl: FIELDS}),
    type: LOOK, about: () => `Visitors who turned to “${product.title}” turned to it too, or it resembles it.`,
  })();
}

openQuestions(kiosk, at("questions"), {
  label: "Ask about the products", scope: SCOPE, open: look,
  examples: ["What does the table telescope show?", "How hardy is the fig tree?", "How long does the wind-up lantern give light?"],
});

keepFresh([refreshLists, refreshDepartments, search.refresh], (event) => {
  if (event.type === LOOK) companions = look(event.product_ids[0]);
  else if (event.product_ids) say(`${nameOf(event.product_ids[0])}: ${event.type.replace(/_/g, " ")}.`);
});
