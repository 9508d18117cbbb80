// Behaviour of the console's pages, by `data-` attributes. No page has a script of its own.
"use strict";
(() => {
  const root = document.documentElement;
  const KEY = "kiosk-theme";

  // Theme: read before the first paint.
  const stored = (() => { try { return localStorage.getItem(KEY); } catch { return null; } })();
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;

  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* the choice holds for this page */ }
    for (const box of document.querySelectorAll("[data-chart]")) drawChart(box);
  }

  // An image that can't be loaded leaves no broken picture beside the name of its product.
  document.addEventListener("error", (event) => {
    if (event.target.matches && event.target.matches("img.thumb")) event.target.remove();
  }, true);

  // Copying: where the clipboard is refused, the text is selected instead.
  async function copy(button) {
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = root.dataset.copied;
      setTimeout(() => { button.textContent = before; }, 1500);
    } catch {
      const code = button.parentElement.querySelector("code, pre");
      if (code) getSelection().selectAllChildren(code);
    }
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-theme-switch], [data-toggle], [data-dialog], [data-close], [data-copy], [data-sort], [data-save-table], [data-pick], [data-unpick]");
    if (!target) return;
    if ("themeSwitch" in target.dataset) switchTheme();
    else if (target.dataset.toggle) {
      const open = document.getElementById(target.dataset.toggle).classList.toggle("is-open");
      target.setAttribute("aria-expanded", String(open));
    } else if (target.dataset.dialog) document.getElementById(target.dataset.dialog).showModal();
    else if (target.dataset.pick !== undefined) addPick(target.dataset);
    else if ("unpick" in target.dataset) removePick(target.closest("li"));
    else if ("sort" in target.dataset) sortRows(target.closest("th"));
    else if ("saveTable" in target.dataset) saveTable(target.previousElementSibling);
    else if ("close" in target.dataset) target.closest("dialog").close();
    else copy(target);
  });

  document.addEventListener("keydown", (event) => {
    const side = document.querySelector(".side.is-open");
    if (event.key === "Escape" && side) {
      side.classList.remove("is-open");
      const button = document.querySelector("[data-toggle=side]");
      button.setAttribute("aria-expanded", "false");
      button.focus();
    }
  });

  // Another app: the same page of it.
  document.addEventListener("change", (event) => {
    const choice = event.target.closest("[data-app-choice]");
    if (choice) {
      const parts = location.pathname.split("/");
      const area = parts[2] === "apps" && parts[4] ? parts[4] : "";
      const known = document.querySelector(`.side a[href^="/console/apps/"]`);
      const path = area || (known ? known.getAttribute("href").split("/")[4] : "");
      location.assign(path ? `/console/apps/${encodeURIComponent(choice.value)}/${path}` : "/console/");
    } else if (event.target.dataset.submit !== undefined) event.target.form.requestSubmit();
  });

  // A form is sent once, and after its word was typed.
  document.addEventListener("submit", (event) => {
    const word = event.target.querySelector("[data-must-equal]");
    if (word && word.value !== word.dataset.mustEqual) {
      event.preventDefault();
      word.focus();
      return;
    }
    if (event.target.dataset.sent) event.preventDefault();
    else if (event.target.method === "post" && !event.target.hasAttribute("hx-post")) {
      event.target.dataset.sent = "yes";
      setTimeout(() => { delete event.target.dataset.sent; }, 5000);
    }
  });

  // htmx: the token of forms, and no polling while nobody looks or a dialog of the polled part is open.
  document.addEventListener("htmx:configRequest", (event) => {
    const token = document.querySelector('meta[name="csrf-token"]');
    if (token) event.detail.headers["X-CSRF-Token"] = token.content;
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    const live = event.detail.elt.closest("[data-live]");
    if (live && (document.hidden || live.querySelector("dialog[open]"))) event.preventDefault();
  });
  // The answer of a poll that began before the dialog opened would take the dialog away.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const live = event.detail.target.closest("[data-live]");
    if (live && live.querySelector("dialog[open]")) event.detail.shouldSwap = false;
  });

  // A result that a form made is hidden once the form differs from it; the next result replaces it.
  document.addEventListener("input", (event) => {
    const maker = event.target.closest("[data-result]");
    const result = maker && document.getElementById(maker.dataset.result);
    if (result) result.classList.add("stale");
  });
  document.addEventListener("htmx:afterSwap", (event) => event.detail.target.classList.remove("stale"));

  // Products of a rule: each gets the next free position, and the preview follows.
  function addPick({ pick, pickTitle }) {
    const box = document.getElementById("picks");
    const list = box.querySelector("[data-picks]");
    const chosen = [...list.querySelectorAll('[name="pick"]')].map((input) => input.value);
    if (chosen.includes(pick)) return;
    const places = [...list.querySelectorAll('[name="pick_position"]')].map((input) => Number(input.value));
    const row = box.querySelector("template").content.firstElementChild.cloneNode(true);
    const position = row.querySelector('[name="pick_position"]');
    row.querySelector(".grow").textContent = pickTitle;
    row.querySelector('[name="pick"]').value = pick;
    position.value = Math.max(0, ...places) + 1;
    position.setAttribute("aria-label", position.dataset.label.replace("{}", pickTitle));
    list.append(row);
    position.focus();
    position.dispatchEvent(new Event("change", { bubbles: true }));
  }
  function removePick(row) {
    const form = row.closest("form");
    row.remove();
    form.dispatchEvent(new Event("change"));
  }

  // Tables: a heading sorts the rows of the page, a button saves them as CSV, and columns can be left out of both. Tables
  // with spans stay as they are.
  const cellText = (cell) => cell.dataset.value ?? cell.innerText.trim().replace(/\s+/g, " ");
  const numberOf = (text) => {
    const plain = text.replace(/[,\s]/g, "").replace(/(%|ms|[KMG]?B)$/, "");
    return plain !== "" && !Number.isNaN(Number(plain)) ? Number(plain) : null;
  };
  function sortRows(heading) {
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const order = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const rows = [...table.tBodies[0].rows].map((row) => {
      const text = row.cells[column] ? cellText(row.cells[column]) : "";
      return { row, text, number: numberOf(text), isEmpty: text === "" || text === "–" };
    });
    const sign = order === "ascending" ? 1 : -1;
    rows.sort((a, b) => {
      if (a.isEmpty !== b.isEmpty) return a.isEmpty ? 1 : -1;
      if (a.number !== null && b.number !== null) return sign * (a.number - b.number);
      return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
    });
    table.tBodies[0].append(...rows.map((one) => one.row));
  }
  // A text that a spreadsheet would run as a formula gets an apostrophe before it.
  const csvCell = (text) => {
    const isFormula = /^[=+@\t\r]/.test(text) || (/^-./.test(text) && numberOf(text) === null);
    const safe = isFormula ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  function saveTable(box) {
    const table = box.querySelector("table");
    const keep = [...table.tHead.rows[0].cells].map((cell) => cell.tagName === "TH" || table.tBodies[0].rows[0]?.cells[cell.cellIndex]?.tagName === "TH");
    const lines = [...table.rows].map((row) => [...row.cells].filter((cell, at) => keep[at] && !cell.hidden).map((cell) => csvCell(cellText(cell))).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.download = `${(table.caption?.textContent || "table").trim().toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-")}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const titleOf = (table) => (table.caption?.textContent || "").trim();
  // The columns that a person left out, by the title of the table; a browser may refuse the storage.
  function hiddenColumns(table, names) {
    const key = `kiosk-columns:${titleOf(table)}`;
    try {
      if (names) localStorage.setItem(key, JSON.stringify(names));
      return JSON.parse(localStorage.getItem(key)) || [];
    } catch {
      return names || [];
    }
  }
  function hideColumns(table, names) {
    const hidden = [...table.tHead.rows[0].cells].map((cell, at) => at > 0 && names.includes(cellText(cell)));
    for (const row of table.rows) [...row.cells].forEach((cell, at) => { cell.hidden = hidden[at]; });
  }
  function buildColumnChoice(table) {
    const headings = [...table.tHead.rows[0].cells].slice(1).filter((cell) => cell.tagName === "TH");
    if (headings.length < 2) return null;
    const choice = document.createElement("details");
    choice.className = "columns-choice";
    const summary = document.createElement("summary");
    summary.textContent = root.dataset.columnsLabel;
    summary.setAttribute("aria-label", `${root.dataset.columnsLabel}: ${titleOf(table)}`);
    const hidden = hiddenColumns(table);
    choice.append(summary, ...headings.map((heading) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = cellText(heading);
      box.checked = !hidden.includes(box.value);
      label.append(box, ` ${box.value}`);
      return label;
    }));
    choice.addEventListener("change", () => {
      const names = [...choice.querySelectorAll("input:not(:checked)")].map((box) => box.value);
      hideColumns(table, hiddenColumns(table, names));
    });
    hideColumns(table, hidden);
    return choice;
  }
  function prepareTables(within) {
    for (const box of within.querySelectorAll(".table-box")) {
      const table = box.querySelector("table");
      if (box.dataset.ready || !table || !table.tBodies[0] || table.querySelector("[rowspan], [colspan]")) continue;
      box.dataset.ready = "yes";
      const choice = buildColumnChoice(table);
      for (const heading of table.tBodies[0].rows.length > 1 ? table.tHead.querySelectorAll("th") : []) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.dataset.sort = "";
        button.append(...heading.childNodes);
        heading.append(button);
      }
      const save = document.createElement("button");
      save.type = "button";
      save.className = "quiet small save-table";
      save.dataset.saveTable = "";
      save.textContent = root.dataset.saveLabel;
      save.setAttribute("aria-label", `${root.dataset.saveLabel}: ${titleOf(table)}`);
      box.after(save, ...(choice ? [choice] : []));
    }
  }

  // Charts: the library loads with the first one.
  let library = null;
  function loadLibrary() {
    library = library || new Promise((resolve, reject) => {
      const style = document.createElement("link");
      style.rel = "stylesheet";
      style.href = root.dataset.uplotCss;
      const script = document.createElement("script");
      script.src = root.dataset.uplotJs;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(style, script);
    });
    return library;
  }

  // A value between gaps has no line, so it needs a point.
  const isSparse = (values) => values.some((value, at) => value != null && values[at - 1] == null && values[at + 1] == null);
  // Times are UTC, as everywhere on the pages.
  const timeLabels = (_, ticks, axis, space, step) => ticks.map((seconds) => {
    const text = new Date(seconds * 1000).toISOString();
    const isDay = step >= 86400 || (step >= 3600 && text.slice(11, 16) === "00:00");
    return isDay ? text.slice(5, 10) : text.slice(11, step >= 60 ? 16 : 19);
  });
  const drawn = new WeakMap();
  async function drawChart(box) {
    await loadLibrary();
    if (!box.isConnected) return;
    const spec = JSON.parse(box.dataset.chart);
    const style = getComputedStyle(root);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const series = spec.series.map((one, at) => ({
      label: one.label, stroke: colour(`--chart-${(at % 5) + 1}`), width: 1.75, spanGaps: false, points: { show: spec.x.length < 40 || isSparse(one.values) },
      ...(one.kind === "bars" ? { fill: colour("--bar"), paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } } : {}),
    }));
    // A chart of few days has one tick for each: on a single value the library would show a year and a half.
    const DAY = 86400;
    const isFewDays = spec.time !== false && spec.x.length > 0 && spec.x.length <= 7 && spec.x.every((at) => at % DAY === 0);
    const days = isFewDays ? { splits: () => spec.x } : {};
    const range = spec.x.length === 1 ? { range: () => [spec.x[0] - DAY / 2, spec.x[0] + DAY / 2] } : {};
    drawn.get(box)?.destroy();
    box.replaceChildren();
    drawn.set(box, new uPlot({
      width: Math.max(box.clientWidth, 200), height: spec.height || 180,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      scales: { x: { time: spec.time !== false, ...range }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 0, 1e-9) * 1.1] } },
      axes: [spec.time === false ? axis : { ...axis, values: timeLabels, ...days }, { ...axis, size: spec.unit ? 72 : 56, values: (_, ticks) => ticks.map((tick) => `${tick.toLocaleString("en")}${spec.unit ? ` ${spec.unit}` : ""}`) }],
      series: [{}, ...series], legend: { show: series.length > 1, live: false }, cursor: { drag: { x: false, y: false } },
    }, [spec.x, ...spec.series.map((one) => one.values)], box));
  }

  function drawAll(within) {
    for (const box of within.querySelectorAll("[data-chart]")) drawChart(box);
  }
  document.addEventListener("DOMContentLoaded", () => { prepareTables(document); drawAll(document); });
  document.addEventListener("htmx:afterSettle", (event) => prepareTables(event.detail.target.parentElement || document));
  document.addEventListener("htmx:afterSwap", (event) => drawAll(event.detail.target));
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => drawAll(document), 200);
  });
})();
