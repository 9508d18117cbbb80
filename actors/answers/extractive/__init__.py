"""Answering without a language model, and checking whoever answers: texts in, sentences with citations out.

compose     THE ANSWER: sentences that answer, in order and cited, or an honest no
wanted      a question, read once: what it asks for, of whom; `kinds` and `appearance` of what can be asked for
question_forms  plain questions (what is it, who does it); `form_evidence`: a sentence built like the answer;
            `load_word_lists`: what both know of a language, in `data/`
weighing    every sentence beside the question; `wording` and `kindred`: near in meaning
judging     the traits of a sentence, weighed: which answers best, and whether it answers at all
sentences   text to sentences with their places

verify      does a passage hold what a sentence says? `figures`: numbers and what they count
orders      what in a text talks to machines: never shown, never obeyed
rendering   markdown in which nothing of a passage can become a link or markup
asking_on   what a follow-up means, and what else could be asked
"""
