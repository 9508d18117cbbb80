// What both demonstrations do alike. Everything they know comes from kiosk.js; `kiosk` is the client that it opened.

import {showCalls} from "./calls.js";
import {FIELDS, nameOf, openList} from "./lists.js";
import {debounced, el, say} from "./page.js";

export const kiosk = window.kiosk;
export const at = (id) => document.getElementById(id);

const showDone = showCalls(kiosk, nameOf);

// Two lists that repeat nothing: each one is asked for without the products of the lists above it.
// `above` returns, or promises, the ids of the list beside the product that the visitor looked at last.
export function openBothLists(scope, {rows, type, above, aboutYou, aboutTrending}) {
  let exclude = [];
  const forYou = openList(at("for-you"), {
    ask: () => kiosk.recommendation.user_to_products({...scope, rows, fl: FIELDS, exclude}), type, name: "For you", about: aboutYou,
  });
  const trending = openList(at("trending"), {
    ask: () => kiosk.recommendation.user_to_trending({...scope, rows: 4, fl: FIELDS, exclude}), type, about: aboutTrending,
  });
  return async () => {
    exclude = kiosk.session.length ? await above() : [];
    exclude = exclude.concat(await forYou());
    await trending();
  };
}

// A button by which the visitor reacts to a product; kiosk.js records clicks on `data-kiosk-product`.
export const reactionButton = (productId, text, type, after) => el("button", {
  type: "button", text, data: {kioskProduct: productId, kioskType: type},
  onclick(event) { event.currentTarget.textContent = after; },
});

// Show what the visitor turned to.
export function showLooked(title, ...parts) {
  const heading = el("h2", {id: "looked-title", tabindex: "-1", text: title});
  at("looked").replaceChildren(heading, ...parts);
  at("looked").hidden = false;
  heading.focus();
  at("looked").scrollIntoView({block: "start"});
}

// Fill the lists, and again after each interaction; `answer` is what the page does about one.
export function keepFresh(lists, answer) {
  const refresh = debounced(() => lists.forEach((list) => list()), 60);
  kiosk.on("interaction", (event) => {
    answer(event);
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
}
