"""Text to index terms: stop words are left out, stems are folded and hashed, by language.

A term is a number (64 bits of a hash of the stem), so that indexes of millions of words need no strings. Stemming
comes before folding, because the stemmers need accents; in English, words are folded first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import mmh3
import Stemmer

from actors.language.folding import fold, tokenize

_EN = """
a about above after again against all also am an and any are as at be because been before being below between
both but by can could did do does doing down during each few for from further had has have having he her here
hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off
on once only or other our ours ourselves out over own per same she should so some such than that the their theirs
them themselves then there these they this those through to too under until up upon us very was we were what when
where which while who whom whose why will with would you your yours yourself yourselves
"""
_DE = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei bin
bis bist da damit dann das dass daß dein deine deinem deinen deiner dem den denn der des dessen die dies diese
diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines einige einigem einigen einiger er
es etwas euch euer eure für gegen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem
ihren ihrer im in indem ins ist ja jede jedem jeden jeder jedes jene jenem jenen jener jenes kann kein keine keinem
keinen keiner können könnte machen man manche mein meine meinem meinen meiner mich mir mit muss musste nach nicht
nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit selbst sich sie sind so solche solchem
sollte sondern sonst um und uns unser unsere unter viel vom von vor wann war waren warst warum was weg weil weiter
welche welchem welchen welcher welches wenn wer werde werden wem wen wie wieder wieviel wieviele will wir wird wirst
wo wollen wollte worden wurde wurden würde würden zu zum zur zwar zwischen über
"""
_ES = """
a al algo algunas algunos ante antes como con contra cual cuales cuando cuanta cuantas cuanto cuantos cuál cuáles
cuándo cuánta cuántas cuánto cuántos cómo de del desde donde durante dónde e el ella ellas ellos en entre era eran
es esa esas ese eso esos esta estaba estado estar estas este esto estos está están fue fueron ha haber había han
hasta hay la las le les lo los me mi mis mucho muchos muy más mí nada ni no nos nosotros nuestra nuestro o os otra
otras otro otros para pero poco por porque que quien quienes quién quiénes qué se sea ser si sido sin sobre son su
sus suyo sí también tanto te tiene tienen toda todas todo todos tu tus tuvo un una unas uno unos y ya yo él
"""
_FR = """
à ai au aucun aussi autre aux avait avant avec avoir c ce cela ces cet cette ceux chaque ci comme comment d dans de
des dont du elle elles en encore entre es est et étaient était été être eu eux fait fut ici il ils j je l la le les
leur leurs lui m ma mais me même mes moi mon n ne ni non nos notre nous on ont ou où par parce pas peu plus pour
pourquoi quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son sont sous sur t ta te tes toi
ton tous tout toute toutes très tu un une vers vos votre vous y
"""
_IT = """
a ad agli ai al alla alle allo anche avere aveva c che chi ci come con cosa cui da dagli dai dal dalla dalle dallo
degli dei del della delle dello di dove e è ed era erano essere fra furono gli ha hanno ho i il in io l la le lei li
lo loro lui ma me mi mia mio ne negli nei nel nella nelle nello no noi non nostro o per perché però più poi qual
quale quali quando quanti quanto quella quelle quelli quello questa queste questi questo qui sarà se sei si sia sono
stata stati stato su sua sue sugli sui sul sulla sulle suo suoi te tra tu tutti tutto un una uno vi voi
"""
_NL = """
aan al alle als bij dan dat de der deze die dit door een en er geen had hadden hebben heeft het hier hij hoe hun ik
in is ja je kan kon maar me meer men met mij mijn na naar niet niets nog nu of om omdat onder ons ook op over reeds
te tegen toch toen tot u uit uw van veel voor waar waarom wanneer waren was wat we welke werd wezen wie wij wil
worden wordt ze zelf zich zij zijn zo zonder zou
"""
_PT = """
a ao aos as até com como da das de dela dele deles do dos e é ela elas ele eles em entre era eram essa esse esta está
este eu foi foram há isso isto já lhe mais mas me mesmo meu minha muito na nas nem no nos nós não o onde os ou para
pela pelas pelo pelos por porque qual quais quando quanto que quem se sem ser seu seus só sua suas são também te tem
tinha um uma você à às
"""

STOP_WORDS = {
    language: frozenset(text.split())
    for language, text in (
        ("en", _EN),
        ("de", _DE),
        ("es", _ES),
        ("fr", _FR),
        ("it", _IT),
        ("nl", _NL),
        ("pt", _PT),
    )
}


ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "nb": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
"Language -> stemmer. Any other language is indexed by whole words."
_FOLDED_FIRST = frozenset(("en",))
"Languages that write words with and without accents: `brûlée` and `brulee` need one stem."

_LETTERS = "[^\\W_]+(?:[\\u0300-\\u036f]+[^\\W_]*)*"
"An accent may be a character of its own behind its letter, also in the small form of a capital I with a dot."
_SPLIT = re.compile(f"(?:[^\\W\\d_]\\.){{2,}}|{_LETTERS}(?:['’]{_LETTERS})?")
"Abbreviations with dots (`U.S.`) stay together."
_CLITIC = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m))$")
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|dell|all|nell|sull|un)'")
_REMEMBERED = 400_000
_LONGEST_WORD = 64


class Analyzer:
    """Turns texts of one language into terms. Remembers words; not safe for several threads at once."""

    def __init__(self, language: str = "en", *, folds_first: bool = True) -> None:
        """Without `folds_first`, English words are stemmed as by releases up to 0.2.0, with their accents."""
        self.language = language[:2].lower()
        self.folds_first = folds_first and self.language in _FOLDED_FIRST
        algorithm = ALGORITHMS.get(self.language)
        # `_codes` remembers whole words, so the cache of the stemmer is off
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord if algorithm else str
        self.stop = STOP_WORDS.get(self.language, frozenset())
        self._codes = _TermCache(self._analyze)

    def terms(self, text: str) -> list[int]:
        """Return the terms of a text in order, with repetitions.

        Units:
            a term is a number of 64 bits, never 0
        Cost:
            35 us for 150 words that it remembers
        """
        return self.terms_of(split_words(text))

    def terms_of(self, words: Iterable[str]) -> list[int]:
        """Return the terms of words that `split_words` returned."""
        return list(chain.from_iterable(map(self._codes.__getitem__, words)))

    def stems(self, text: str) -> list[str]:
        """Return the stems of a text before hashing, for explanations."""
        return [stem for word in _SPLIT.findall(text.lower()) for stem in self._stems(word)]

    def _analyze(self, word: str) -> tuple[int, ...]:
        return tuple(term_code(stem) for stem in self._stems(word))

    def _stems(self, word: str) -> list[str]:
        # `U.S.` and `US` are one term.
        if "." in word:
            return [fold(word.replace(".", ""))]
        if "'" in word or "’" in word:
            word = word.replace("’", "'")
            # `l'eau` and `it's` are looked up without what is attached to them.
            bare = _ELISION.sub("", _CLITIC.sub("", word))
            return (
                [] if word in self.stop else [stem for part in bare.split("'") for stem in self._stems(part)]
            )
        # Composed, since stemmers compare whole letters with their
        # accents; cut, as a word may have any length.
        word = unicodedata.normalize("NFC", word)[:_LONGEST_WORD]
        if not word or word in self.stop:
            return []
        return [self._stemmed(piece) for piece in ([word] if word.isascii() else _split_word(word))]

    def _stemmed(self, word: str) -> str:
        if self.folds_first:
            word = fold(word) or word
        # A stem of combining characters only folds to nothing; the word itself then stands for it.
        return fold(self._stem(word)) or word


class _TermCache(dict[str, tuple[int, ...]]):
    """Words and their terms; a missing word is analyzed."""

    def __init__(self, analyze: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._analyze = analyze

    def __missing__(self, word: str) -> tuple[int, ...]:
        codes = self._analyze(word)
        # Cleared as a whole: keeping the most frequent would cost at every lookup.
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = codes
        return codes


class Analyzers:
    """Analyzers by language, built on first use."""

    def __init__(self) -> None:
        self._by_language: dict[str, Analyzer] = {}
        self._former = Analyzer("en", folds_first=False)

    def get(self, language: str) -> Analyzer:
        """Return the analyzer of a language; languages without a stemmer share one."""
        short = language[:2].lower()
        key = short if short in ALGORITHMS else ""
        analyzer = self._by_language.get(key)
        if analyzer is None:
            analyzer = self._by_language[key] = Analyzer(key)
        return analyzer

    def detect_language(self, text: str) -> str:
        """Guess the language with most stop words in a text; `en` among equals."""
        words = _SPLIT.findall(text.lower())
        best = "en"
        most = sum(word in STOP_WORDS["en"] for word in words)
        for language, stop in STOP_WORDS.items():
            count = sum(word in stop for word in words)
            if count > most:
                best = language
                most = count
        return best

    def query_terms(self, text: str, languages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return for each word of a query its different terms in some languages.

        An English word with accents also has the term of releases up to 0.2.0: passages of their snapshots have it.
        The stop words are those of the language with most stop words in the query; among equals the first one.
        """
        analyzers = [self.get(language) for language in languages] or [self.get("")]
        words = _SPLIT.findall(text.lower())
        # `max` keeps the first of equals, so the order of `languages` decides.
        main = max(analyzers, key=lambda analyzer: sum(word in analyzer.stop for word in words))
        terms: list[tuple[int, ...]] = []
        for word in words:
            if main.terms(word):
                codes = dict.fromkeys(code for analyzer in analyzers for code in analyzer.terms(word))
                if not word.isascii() and any(analyzer.folds_first for analyzer in analyzers):
                    codes.update(dict.fromkeys(self._former.terms(word)))
                terms.append(tuple(codes))
        return terms


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case."""
    return _SPLIT.findall(text.lower())


def split_words_with_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a text in lower case, and where each begins and ends."""
    for match in _SPLIT.finditer(text):
        yield match.group().lower(), match.start(), match.end()


def find_former_terms(words: Iterable[str]) -> list[int]:
    """Return the terms of English words in releases up to 0.2.0 that this release replaces by others."""
    former = Analyzer("en", folds_first=False)
    present = Analyzer("en")
    accented = [word for word in words if not word.isascii()]
    return list({*former.terms_of(accented)} - {*present.terms_of(accented)})


def term_code(stem: str) -> int:
    """Hash a stem to 64 bits, never 0."""
    # The seed 11 stands in stored indexes, so it can't change; 0 means no term there.
    return mmh3.hash64(stem.encode("utf-8", "surrogatepass"), 11, signed=False)[0] or 1


def _split_word(word: str) -> list[str]:
    """Split a word of a script without blanks into pairs; others keep their accents for the stemmer."""
    pieces = tokenize(word)
    return pieces if len(pieces) > 1 else [word]
