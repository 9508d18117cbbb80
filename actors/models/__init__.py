"""What was learned, and how to ask it: the half of a trained engine that serving needs. Nothing here trains.

Read in this order:

    vocabulary    names and codes
    histories     what readers did before the moment of asking, and how it fades
    past          one reader's history, for a single question
    model         the protocol of everything that scores, also of your own models
    neighbours sessions counted habit factors      models of a blend
    cohorts content                                models for readers and items nobody knows yet
    scaled blend                                   several models as one
    rows_added                                     the one sum that every answer needs, as quick as it can be
    snapshot      trained arrays on disk, memory-mapped back, every byte vouched for
    registry      from what a snapshot keeps of a part to the model that scores

`jobs.refresh` trains and writes; it uses these modules, so what is chosen by validation is what serves.
"""
