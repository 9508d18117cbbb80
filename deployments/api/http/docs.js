"use strict";
const all = (query, root = document) => [...root.querySelectorAll(query)];
const SITE = new URL(document.body.dataset.root, location.href).href.replace(/\/$/, "");
const LANGUAGES = ["curl", "Python", "JavaScript"];

function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
}

function button(label, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = label;
  made.addEventListener("click", act);
  return made;
}

function copyButton(pre) {
  const made = button("Copy", async () => {
    await copied(pre.textContent);
    made.textContent = "Copied";
    setTimeout(() => { made.textContent = "Copy"; }, 1500);
  });
  return made;
}

function python(value, indent) {
  const inner = `${indent}    `;
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const list = Array.isArray(value);
  const parts = list
    ? value.map((item) => inner + python(item, inner))
    : Object.entries(value).map(([name, item]) => `${inner}${JSON.stringify(name)}: ${python(item, inner)}`);
  const [open, close] = list ? "[]" : "{}";
  return parts.length ? `${open}\n${parts.join(",\n")},\n${indent}${close}` : open + close;
}

function programs(pre) {
  const text = pre.textContent;
  const address = /\$URL([^"]*)"/.exec(text)[1];
  const at = text.indexOf(" -d '");
  const body = at < 0 ? undefined : JSON.parse(text.slice(at + 5, text.lastIndexOf("'")).replaceAll("'\\''", "'"));
  const file = text.includes("--data-binary");
  const method = /-X (\w+)/.exec(text)?.[1] ?? (at < 0 ? "GET" : "POST");
  const [name, key] = text.includes("Bearer $TOKEN") ? ["Authorization", "Bearer YOUR_TOKEN"] : ["X-API-KEY", "YOUR_KEY"];
  const url = JSON.stringify(SITE + address);
  const more = body === undefined ? "" : `,\n    json=${python(body, "    ")}`;
  const sent = file ? ',\n    content=open("FILE", "rb").read()' : more;
  const options = [`method: "${method}"`, `headers: {"${name}": "${key}"}`];
  if (body !== undefined) options.push(`body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")})`);
  if (file) options.push("body: file");
  return {
    curl: text,
    Python: `import httpx\n\nanswer = httpx.request(\n    "${method}",\n    ${url},\n    headers={"${name}": "${key}"}${sent},\n)\nprint(answer.json())`,
    JavaScript: `const answer = await fetch(${url}, {\n  ${options.join(",\n  ")},\n});\nconsole.log(await answer.json());`,
  };
}

function choose(language) {
  for (const pre of all("main pre")) {
    if (pre.programs) pre.textContent = pre.programs[language];
  }
  for (const tab of all("[role=tab]")) tab.setAttribute("aria-selected", String(tab.textContent === language));
}

function addTools(pre) {
  const bar = document.createElement("div");
  bar.className = "bar";
  if (pre.textContent.startsWith("curl -s")) {
    pre.programs = programs(pre);
    bar.setAttribute("role", "tablist");
    for (const language of LANGUAGES) {
      const tab = button(language, () => choose(language));
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-selected", String(language === "curl"));
      bar.append(tab);
    }
  }
  bar.append(copyButton(pre));
  pre.before(bar);
}

function search() {
  const words = document.getElementById("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = new Set();
  for (const part of all("main details[id]")) {
    part.text ??= part.textContent.toLowerCase();
    const fits = words.every((word) => part.text.includes(word));
    part.hidden = !fits;
    if (fits) shown.add(`#${part.id}`);
  }
  for (const entry of all("#side li")) entry.hidden = !shown.has(entry.firstElementChild.getAttribute("href"));
  for (const group of all("#side .group")) group.hidden = words.length > 0 && !all("li:not([hidden])", group).length;
  document.getElementById("side").classList.toggle("finding", words.length > 0);
  document.getElementById("found").textContent = words.length ? `${shown.size} found` : "";
}

function open() {
  const part = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!part) return;
  part.hidden = false;
  const details = part.closest("details");
  if (details) details.open = true;
  part.scrollIntoView();
}

function addContents() {
  let list;
  for (const part of all("main > h2[id], main > details[id]")) {
    if (part.matches("h2")) {
      list = document.createElement("ul");
      all(`#side a[href="#${part.id}"]`)[0]?.after(list);
    } else if (!part.id.startsWith("schema-")) {
      const entry = document.createElement("li");
      const link = document.createElement("a");
      link.href = `#${part.id}`;
      link.textContent = part.querySelector("summary").lastChild.textContent.trim();
      entry.append(link);
      list.append(entry);
    }
  }
}

all("main pre").forEach(addTools);
addContents();
document.getElementById("tools").hidden = false;
document.getElementById("find").addEventListener("input", search);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea")) return;
  event.preventDefault();
  document.getElementById("find").focus();
});
addEventListener("hashchange", open);
open();
