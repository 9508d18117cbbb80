"""Paragraphs of pages as answers: cut out of HTML, judged by a question, shown with their place.

page_parser  HTML to a tree of bounded depth and size
cutting      HTML to paragraphs with the heading they stand under
judging      how likely a paragraph answers a question
showing      one paragraph with its selector, its HTML and the block around it
"""
