// The search bar: completions while somebody types, results with facets.

import {card, shownProducts, FIELDS} from "./lists.js";
import {debounced, el, marked, plural, say} from "./page.js";

// A combobox as the ARIA practices describe it: arrows choose, Enter takes, Escape closes.
function combobox(label, {complete, submit}) {
  const input = el("input", {
    type: "search", id: "query", role: "combobox", autocomplete: "off", spellcheck: "false",
    "aria-expanded": "false", "aria-controls": "completions", "aria-autocomplete": "list",
  });
  const options = el("ul", {id: "completions", class: "options", role: "listbox", "aria-label": "Completions", hidden: true});
  let chosen = -1;
  let turn = 0;
  let submitted = "";

  function close() {
    turn++;
    options.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function choose(at) {
    const lines = [...options.children];
    chosen = (at + lines.length) % lines.length;
    lines.forEach((line, place) => line.setAttribute("aria-selected", String(place === chosen)));
    input.setAttribute("aria-activedescendant", lines[chosen].id);
  }
  function take(text) {
    input.value = submitted = text;
    close();
    submit(text);
  }

  const load = debounced(async () => {
    if (input.value === submitted) return;
    const mine = ++turn;
    const found = input.value.trim() ? await complete(input.value) : [];
    if (mine !== turn) return;
    options.replaceChildren(...found.map((one, at) => el("li", {
      id: `completion-${at}`, role: "option", "aria-selected": "false",
      onmousedown(event) { event.preventDefault(); take(one.text); },
    }, ...marked(one.text_with_inverted_markups))));
    chosen = -1;
    options.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
  }, 120);

  input.addEventListener("input", () => { submitted = ""; load(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const isOpen = !options.hidden;
    if (event.key === "ArrowDown" && isOpen) choose(chosen + 1);
    else if (event.key === "ArrowUp" && isOpen) choose(chosen < 0 ? -1 : chosen - 1);
    else if (event.key === "Escape" && isOpen) close();
    else if (event.key === "Enter" && isOpen && chosen >= 0) take(options.children[chosen].textContent);
    else return;
    event.preventDefault();
  });
  const form = el("form", {role: "search", onsubmit(event) {
    event.preventDefault();
    close();
    // A pause in typing that ends after Enter opens no completions over the results.
    submitted = input.value;
    submit(input.value);
  }}, el("div", {class: "combo"}, input, options), el("button", {type: "submit", class: "main", text: "Search"}));
  return [el("label", {class: "field", for: "query", text: label}), form];
}

// Put a search bar into `place`. `scope` are fields of each call, `facets` what can be narrowed down.
export function openSearch(kiosk, place, {label, type, scope, facets}) {
  const box = el("div", {class: "facets"});
  const heading = el("h2", {id: "results-title", tabindex: "-1"});
  const list = el("ul", {class: "cards"});
  const results = el("section", {"aria-labelledby": "results-title", hidden: true}, heading, box, list);
  let state = {q: "", category: undefined, chosen: {}};

  async function complete(q) {
    const reply = await kiosk.search.autocomplete({...scope, q, completion_fields: ["title"], rows: 6});
    return reply.ok ? reply.data.completions.title : [];
  }

  async function run() {
    const filters = Object.fromEntries(Object.entries(state.chosen).filter(([, terms]) => terms.length).map(([field, terms]) => [field, {terms}]));
    const body = {...scope, q: state.q || "*", rows: 8, fl: FIELDS, facets: facets.map(({field}) => ({field, size: 6})), facet_filters: filters};
    if (state.category) body.category = state.category;
    const asked = state;
    const reply = await kiosk.search.search(body);
    if (asked !== state) return;
    results.hidden = false;
    if (!reply.ok) {
      heading.textContent = `The search failed: ${reply.message}`;
      return;
    }
    const {products, total, spellcheck} = reply.data;
    const what = state.category ? state.category.join(" › ") : `“${spellcheck.corrected_query}”`;
    heading.textContent = `${plural(total, "result")} for ${what}`;
    say(heading.textContent);
    products.forEach((product) => shownProducts.set(product.product_id, product));
    const about = "The search ranks by the words and by what you did.";
    list.replaceChildren(...products.map((product) => card(product, {type, call: reply.request, about})));
    showFacets(reply.data.facet_counts.facet_fields);
  }

  function showFacets(counts) {
    const focused = document.activeElement && document.activeElement.id;
    box.replaceChildren(...facets.map(({field, name}, group) => {
      const chosen = state.chosen[field] || [];
      return el("fieldset", {}, el("legend", {text: name}), ...(counts[field] || []).map(([value, count], at) => {
        const input = el("input", {type: "checkbox", id: `facet-${group}-${at}`, checked: chosen.includes(value), onchange() {
          const terms = input.checked ? [...chosen, value] : chosen.filter((one) => one !== value);
          state = {...state, chosen: {...state.chosen, [field]: terms}};
          run();
        }});
        return el("label", {for: input.id}, input, `${value} (${count})`);
      }));
    }));
    const again = focused && focused.startsWith("facet-") && document.getElementById(focused);
    if (again) again.focus();
  }

  function submit(text) {
    state = {q: text.trim(), category: undefined, chosen: {}};
    if (!state.q) {
      results.hidden = true;
      return;
    }
    kiosk.track("search", {search: {keywords: state.q}});
    run();
  }

  place.append(...combobox(label, {complete, submit}), results);
  return {
    refresh() { if (!results.hidden) run(); },
    openCategory(path) {
      state = {q: "", category: path, chosen: {}};
      document.getElementById("query").value = "";
      run().then(() => { heading.focus(); heading.scrollIntoView({block: "start"}); });
    },
  };
}
