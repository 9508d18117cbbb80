// The question box: the answer grows in stages, and each citation leads to its source.

import {el, marked, say} from "./page.js";

// Text with [1] as links to the sources.
function cited(answer, sources, key) {
  return answer.split(/(\[\d+\])/).filter(Boolean).map((part) => {
    const number = Number((/^\[(\d+)\]$/.exec(part) || [])[1]);
    return number >= 1 && number <= sources.length
      ? el("a", {href: `#${key}-${number}`, text: part, "aria-label": `Source ${number}: ${sources[number - 1].title || ""}`})
      : part;
  });
}

export function openQuestions(kiosk, place, {label, scope, examples, open}) {
  const input = el("input", {type: "text", id: "question", autocomplete: "off", maxlength: "500"});
  const form = el("form", {onsubmit(event) {
    event.preventDefault();
    if (input.value.trim()) ask(input.value.trim());
  }}, input, el("button", {type: "submit", class: "main", text: "Ask"}));
  const hints = el("div", {class: "tools"});
  const answers = el("div", {});
  let count = 0;
  place.append(
    el("label", {class: "field", for: "question", text: label}), form,
    el("p", {class: "note", text: "For example:"}), hints, answers);

  function suggest(questions) {
    hints.replaceChildren(...questions.map((text) => el("button", {type: "button", class: "small", text, onclick() {
      input.value = text;
      ask(text);
    }})));
  }

  async function ask(question, parent) {
    const key = `source-${++count}`;
    const stages = el("ol", {class: "stages", "aria-label": "Stages of the answer"});
    const words = el("p", {class: "words"});
    const more = el("div", {});
    const box = el("div", {class: "answer", "aria-busy": "true"}, el("h3", {text: question}), stages, words, more);
    answers.prepend(box);
    const body = {...scope, question, source_fl: ["title", "url"], ...(parent && {parent_question_id: parent})};
    const reply = await kiosk.answer(body, (answer) => {
      if (stages.lastChild === null || stages.lastChild.textContent !== answer.answer_stage) {
        stages.append(el("li", {text: answer.answer_stage}));
      }
      if (answer.finished || answer.sources.length) words.replaceChildren(...cited(answer.answer, answer.sources, key));
      if (answer.finished) finish(answer, more, key);
    });
    box.setAttribute("aria-busy", "false");
    if (!reply.ok) words.textContent = `No answer: ${reply.message}`;
    say(`Answer: ${words.textContent}`);
  }

  function finish(answer, more, key) {
    const resources = answer.sources.length ? [] : answer.related_resources.slice(0, 3);
    more.replaceChildren(
      ...(answer.sources.length ? [el("h4", {text: "Sources"})] : []),
      el("ol", {class: "sources"}, ...answer.sources.map((source, at) => el("li", {id: `${key}-${at + 1}`, tabindex: "-1"}, ...entry(source)))),
      ...(resources.length ? [el("h4", {text: "Perhaps these help"}), el("ul", {class: "sources"}, ...resources.map((one) => el("li", {}, ...entry(one))))] : []),
      el("div", {class: "tools"}, ...answer.followup_questions.map((text) => el("button", {type: "button", class: "small", text, onclick() {
        ask(text, answer.question_id);
      }}))));
  }

  function entry(source) {
    return [
      el("button", {type: "button", class: "linkish", text: source.title || source.product_id, onclick: () => open(source.product_id)}),
      el("span", {class: "snippet"}, ...marked(source.snippet)),
    ];
  }

  suggest(examples);
  return {suggest, ask};
}
