// Completions by indexed peers: reads {library, titles, queries, count} from a file, prints {build_s, ms, found}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
const [, , input, modules] = process.argv;
const require = createRequire(modules + "/");
const { library, titles, popularity, queries, count } = JSON.parse(readFileSync(input, "utf-8"));

function minisearch() {
  const MiniSearch = require("minisearch").default ?? require("minisearch");
  const index = new MiniSearch({ fields: ["t"], storeFields: [] });
  index.addAll(titles.map((t, id) => ({ id, t })));
  const options = {
    prefix: true, combineWith: "AND", boostDocument: (id) => 1 + 0.2 * Math.log10(1 + popularity[id]),
    fuzzy: (term) => (term.length > 8 ? 0.3 : term.length > 2 ? 0.25 : false), maxFuzzy: 4,
  };
  return (q) => index.search(q, options).slice(0, count).map((hit) => hit.id);
}

function flexsearch() {
  const FlexSearch = require("flexsearch");
  const { Index, Charset } = FlexSearch.default ?? FlexSearch;
  const index = new Index({ tokenize: "forward", encoder: Charset?.LatinAdvanced, resolution: 9 });
  titles.forEach((t, id) => index.add(id, t));
  return (q) => index.search(q, { limit: count, suggest: true });
}

function fuse() {
  const Fuse = require("fuse.js").default ?? require("fuse.js");
  const index = new Fuse(titles, { includeScore: true, threshold: 0.5, distance: 200, ignoreLocation: false });
  return (q) => index.search(q.slice(0, 32), { limit: count }).map((hit) => hit.refIndex);
}

const started = performance.now();
const ask = { minisearch, flexsearch, fuse }[library]();
const build_s = (performance.now() - started) / 1000;
const found = [];
const ms = [];
for (const q of queries.slice(0, 20)) ask(q);
for (const q of queries) {
  const before = performance.now();
  found.push(ask(q));
  ms.push(performance.now() - before);
}
console.log(JSON.stringify({ build_s, ms, found }));
