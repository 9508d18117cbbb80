"""Answers without a language model, and checks of any answer: texts in, sentences with citations out.

answer_composer     compose an answer of cited sentences, or an honest no
question_analysis   read a question once: its words, names and answer type
answer_types        classify what kind of thing a question asks for
question_forms      take plain questions apart (what is it, who does it); form_evidence finds sentences built like
                    their answers
sentence_features   compare every sentence with the question; text_tokens says how near two words are
sentence_scorer     weigh the features: which sentence answers best, and whether it answers at all
entity_patterns     find numbers, dates, names, places and reasons in a sentence; numbers reads their values
sentences           split text into sentences
verify              check whether a passage supports a sentence
injection_filter    remove text that gives orders to a language model
followups           make a follow-up question understandable by itself; followup_patterns holds its patterns
question_generation make questions of English sentences
markdown            render answers; term_links links names in them
language_data       load the words and patterns of every language from `data/*.toml`; language_schema validates them

To add a language, add a file to `data/`; `data/en.toml` explains every key.
"""
