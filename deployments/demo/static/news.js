// The newspaper.

import {at, keepFresh, kiosk, openBothLists, reactionButton, showLooked} from "./demo.js";
import {FIELDS, openList, shownProducts} from "./lists.js";
import {el, say} from "./page.js";
import {openQuestions} from "./questions.js";
import {openSearch} from "./search.js";

// The playground holds a shop and a newspaper. This page shows the newspaper.
const SCOPE = {type: "article"};

const search = openSearch(kiosk, at("search"), {
  label: "Search the newspaper", type: "read", scope: SCOPE,
  facets: [{field: "custom_attributes.section", name: "Section"}, {field: "tags", name: "Subject"}],
});

let companions = [];

const refreshLists = openBothLists(SCOPE, {
  above: () => companions,
  rows: 6, type: "read",
  aboutYou: () => (kiosk.session.length ? "The engine ranks the archive by what you read." : "You are new: the engine takes what many read."),
  aboutTrending: () => "Many users turn to it now.",
});

// Show the article that the visitor reads; its parts arrive as text and stay text. Return the ids of the list below it.
async function read(productId) {
  const reply = await kiosk.search.mget({product_ids: [productId], fl: [...FIELDS, "authors", "headers", "paragraphs"]});
  const article = reply.ok ? reply.data.products[0] : null;
  if (!article || !article._found) {
    say("This article is gone.");
    return [];
  }
  shownProducts.set(productId, article);
  const next = el("div", {});
  const asked = el("div", {class: "tools"});
  showLooked(
    article.title,
    el("p", {class: "note", text: [(article.authors || []).join(", "), String(article.published_at || "").slice(0, 10)].filter(Boolean).join(" · ")}),
    el("p", {class: "lead", text: article.subtitle || ""}),
    el("div", {class: "prose"}, ...(article.paragraphs || []).map((text) => el("p", {text}))),
    el("div", {class: "tools"},
      reactionButton(productId, "Like", "like", "Liked ✓"), reactionButton(productId, "Not for me", "dislike", "Noted ✓")),
    asked,
    el("h3", {text: "Read next"}), next);
  const related = await kiosk.ask.related_questions({product_id: productId, rows: 3});
  if (related.ok) {
    asked.append(...related.data.related_questions.map((text) => el("button", {type: "button", class: "small", text, onclick() {
      questions.ask(text);
      at("questions").scrollIntoView({block: "start"});
    }})));
  }
  return openList(next, {
    ask: () => kiosk.recommendation.product_to_products({...SCOPE, product_id: productId, rows: 4, fl: FIELDS}),
    type: "read", about: () => `Users who read “${article.title}” read it too, or it resembles it.`,
  })();
}

const questions = openQuestions(kiosk, at("questions"), {
  label: "Ask the archive", scope: SCOPE, open: (productId) => kiosk.track("read", productId),
  examples: ["How long is the Kaltbach tunnel?", "How deep did the robot Nereid Two dive?", "Who taught Pavel Oster to play chess?"],
});
kiosk.ask.trending_questions({rows: 3}).then((reply) => {
  if (reply.ok && reply.data.related_questions.length === 3) questions.suggest(reply.data.related_questions);
});

keepFresh([refreshLists, search.refresh], (event) => {
  if (event.type === "read") companions = read(event.product_ids[0]);
});
