// The panel: what the visitor did, and every call with its answer, to copy as curl.

import {el, say} from "./page.js";

const MOST = 15;
const NAMES = {
  product_detail_page_view: "looked at", add_to_cart: "put into the cart", like: "liked", dislike: "disliked",
  click: "clicked", read: "read", search: "searched for",
};

// Quote a word for a shell.
const quoted = (word) => "'" + word.replace(/'/g, "'\\''") + "'";

// The same call as a command. An app may refuse programs with this key, so the command names the browser.
export function curlOf(call, more = {}) {
  const url = location.origin + new URL(call.url, location.href).pathname;
  const body = call.body && {...call.body, ...more};
  const key = more.explain ? '-H "X-API-KEY: $KIOSK_SECRET_KEY"' : `-A ${quoted(navigator.userAgent)}`;
  const address = more.explain ? url : url + new URL(call.url, location.href).search;
  return `curl -s ${quoted(address)} ${key}` + (body ? ` -d ${quoted(JSON.stringify(body))}` : "");
}

export function copyButton(label, textOf) {
  return el("button", {type: "button", class: "small", text: label, async onclick(event) {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(textOf());
      button.textContent = "Copied";
    } catch (error) { // no clipboard without TLS
      button.after(el("pre", {tabindex: "0", text: textOf()}));
      button.remove();
    }
    say("The command is ready.");
  }});
}

// A path that may break behind a slash or an underscore.
const breakable = (path) => path.split(/(?<=[/_])/).flatMap((part) => [part, el("wbr")]);

function shown(call) {
  const row = el("details", {class: "call", role: "listitem"},
    el("summary", {},
      el("div", {class: "path"}, el("b", {text: call.method}), ...breakable(call.path)),
      el("div", {class: "took", text: call.status ? `status ${call.status} · ${call.ms} ms` : "no answer"})));
  // Written when somebody looks, because a page makes many calls.
  row.addEventListener("toggle", () => {
    if (row.open && row.childElementCount === 1) {
      row.append(
        copyButton("Copy as curl", () => curlOf(call)),
        el("pre", {tabindex: "0", role: "group", "aria-label": "Request", text: JSON.stringify(call.body || {}, null, 1)}),
        el("pre", {tabindex: "0", role: "group", "aria-label": "Answer", text: brief(call.reply)}));
    }
  });
  return row;
}

function brief(reply) {
  const text = JSON.stringify(reply.body || reply.message, null, 1);
  return text.length > 3000 ? text.slice(0, 3000) + " …" : text;
}

// Show calls and interactions of a client; `nameOf` turns a product id into a title.
export function showCalls(kiosk, nameOf) {
  const calls = document.getElementById("calls");
  const done = document.getElementById("done");
  const restart = document.getElementById("restart");

  function showDone() {
    done.replaceChildren(...kiosk.session.map((event) => {
      const what = event.search ? event.search.keywords : (event.product_ids || []).map(nameOf).join(", ");
      return el("li", {text: `${NAMES[event.type] || event.type}: ${what}`});
    }));
    if (!kiosk.session.length) done.append(el("li", {text: "nothing yet"}));
    restart.hidden = !kiosk.session.length;
  }

  kiosk.on("call", (call) => {
    const row = shown(call);
    // A growing answer is asked for again and again: one line is enough.
    const same = [...calls.children].find((one) => call.method === "GET" && one.dataset.path === call.path);
    if (same) same.remove();
    row.dataset.path = call.path;
    calls.prepend(row);
    while (calls.childElementCount > MOST) calls.lastElementChild.remove();
  });
  kiosk.on("interaction", showDone);
  showDone();
  return showDone;
}
