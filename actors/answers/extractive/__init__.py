"""Answers without a language model, and checks of any answer: texts in, sentences with citations out.

answer_composer     compose an answer of cited sentences, or refuse
question_analysis   analyze a question once: its words, names and answer type
question_templates  parse plain questions (what is it, who does it); answer_form finds sentences of the form of
                    their answers
sentence_features   compare every sentence with the question; sentence_splitter splits texts, text_tokens
                    finds their stems and compares them
sentence_scorer     weigh the features: which sentence answers best, and whether it answers at all
answer_evidence     decide whether a sentence has what the question asks for, and what happens to it
number_parser       parse numbers in digits or words, with their units
entity_recognition  find numbers, dates, names, places and reasons in a sentence
support_scorer      check whether a passage supports a sentence, with its numbers
injection_filter    remove text that gives orders to a language model
followups           make a follow-up question understandable by itself
question_generation make questions of English sentences
markdown            render answers, with links of names in them

The words of each language come from `actors/language/data`.
"""
