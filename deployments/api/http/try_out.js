"use strict";
const part = (name) => document.getElementById(name);
const operations = new Map();
let chosen;

function field(given) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  const need = given.required ? "" : ", optional";
  label.textContent = `${given.name} (${given.in}${need})`;
  label.htmlFor = input.id = `given-${given.name}`;
  input.title = given.description;
  input.value = given.example ?? "";
  input.dataset.name = given.name;
  input.dataset.place = given.in;
  part("given").append(label, input);
}

function show(name) {
  chosen = operations.get(name) ?? operations.values().next().value;
  part("operation").value = chosen.operationId;
  part("about").textContent = chosen.description.replace(/\*\*|`/g, "");
  part("given").replaceChildren();
  chosen.parameters.forEach(field);
  const content = chosen.requestBody?.content["application/json"];
  part("body-part").hidden = !content;
  part("body").value = content ? JSON.stringify(content.example, null, 2) : "";
  part("result").hidden = true;
  write();
}

function address() {
  let path = chosen.path;
  const query = new URLSearchParams();
  for (const input of part("given").querySelectorAll("input")) {
    const {name, place} = input.dataset;
    if (place === "path") path = path.replace(`{${name}}`, () => encodeURIComponent(input.value));
    if (place === "query" && input.value) query.set(name, input.value);
  }
  return path + (query.size ? `?${query}` : "");
}

function headers(key, token) {
  const found = {"X-API-KEY": key};
  if (token) found.Authorization = `Bearer ${token}`;
  for (const input of part("given").querySelectorAll("[data-place=header]")) {
    if (input.value) found[input.dataset.name] = input.value;
  }
  return found;
}

function write() {
  const site = new URL("..", location.href).href.replace(/\/$/, "");
  const sent = headers("$KEY", part("token").value ? "$TOKEN" : "");
  const words = Object.entries(sent).map(([name, value]) => ` -H "${name}: ${value}"`);
  const body = part("body-part").hidden ? "" : ` \\\n  -d '${part("body").value.replaceAll("'", "'\\''")}'`;
  part("curl").textContent = `curl -s -X ${chosen.method} "${site}${address()}"${words.join("")}${body}`;
  const options = [`method: "${chosen.method}"`, `headers: ${JSON.stringify(headers("YOUR KEY", ""))}`];
  if (body) options.push(`body: JSON.stringify(${part("body").value})`);
  part("fetch").textContent =
    `const answer = await fetch("${site}${address()}", {\n  ${options.join(",\n  ")},\n});\nconsole.log(await answer.json());`;
}

async function send() {
  part("result").hidden = false;
  part("status").textContent = "...";
  part("answer").textContent = "";
  const begun = performance.now();
  try {
    const answer = await fetch(`..${address()}`, {
      method: chosen.method,
      headers: headers(part("key").value.trim(), part("token").value.trim()),
      body: part("body-part").hidden ? undefined : part("body").value,
      credentials: "omit",
    });
    const text = await answer.text();
    const took = Math.round(performance.now() - begun);
    const wait = answer.headers.get("retry-after");
    part("status").textContent = `${answer.status} after ${took} ms` + (wait ? `, retry after ${wait} s` : "");
    try {
      part("answer").textContent = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      part("answer").textContent = text;
    }
  } catch (error) {
    part("status").textContent = `no answer: ${error.message}`;
  }
}

async function start() {
  const described = await (await fetch("../openapi.json", {credentials: "omit"})).json();
  const groups = new Map();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      operations.set(operation.operationId, {...operation, path, method: method.toUpperCase()});
      const group = groups.get(operation.tags[0]) ?? document.createElement("optgroup");
      group.label = operation.tags[0];
      group.append(new Option(`${method.toUpperCase()} ${path} – ${operation.summary}`, operation.operationId));
      groups.set(group.label, group);
    }
  }
  part("operation").append(...groups.values());
  part("operation").addEventListener("change", (event) => { location.hash = event.target.value; });
  addEventListener("hashchange", () => show(location.hash.slice(1)));
  addEventListener("input", write);
  part("send").addEventListener("click", send);
  show(location.hash.slice(1) || "search.search");
}

start();
