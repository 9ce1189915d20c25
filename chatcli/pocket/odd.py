"""Input that means nothing to pocket, and its one honest reply; knows nothing of facts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from . import words as w
from .about import REAL
from .values import invented, letters, thing

THINKING = "I do not understand what the user typed. I say so honestly."
REPLY = f"I am pocket, a tiny model, and I did not understand that. {REAL}"

FOREIGN = """
Wie geht es dir?;Ich heiße Jonas und wohne in Köln;Was ist die Hauptstadt von Polen?;Guten Tag, was kannst du?
Kannst du mir bitte helfen?;Das Wetter ist heute schön;Ich habe einen Hund;Schreib mir ein Gedicht über den Herbst
Comment ça va?;Je m'appelle Luc et j'habite à Lyon;Quelle heure est-il?;Peux-tu m'aider avec mes devoirs?
Le chat est sur la table;Raconte-moi une histoire;Qu'est-ce que tu fais?;J'ai deux enfants
¿Cómo estás?;Me llamo Pedro y vivo en Sevilla;¿Qué hora es?;No entiendo nada;¿Puedes ayudarme con esto?
El perro come pan;Quiero aprender algo nuevo;¿Dónde está la biblioteca?;Tengo hambre;Muchas gracias por todo
Come stai?;Mi chiamo Anna e abito a Pisa;Che tempo fa oggi?;Raccontami una barzelletta;Il gatto dorme sul divano
Como você está?;Meu nome é João e moro em Recife;Que horas são?;Me conte uma piada;O gato bebe leite
Hoe gaat het met je?;Ik woon in Gent en ik heb een kat;Wat is jouw naam?;Kun je mij helpen?;Het regent vandaag
Jak się masz?;Nazywam się Ewa;Gdzie mieszkasz?;Hur mår du?;Jag heter Nils och bor i Malmö;Vad heter du?
Nasılsın?;Benim adım Deniz;Mitä kuuluu?;Minun nimeni on Aino;Hvordan har du det?;Jeg hedder Bo;Hogy vagy?
Как дела?;Меня зовут Иван;Где ты живёшь?;Расскажи мне сказку;Что ты умеешь?;Привет, как тебя зовут?
你好吗;我叫小明;今天天气怎么样?;你会做什么;给我讲个笑话;北京在哪里;元気ですか;私の名前は花子です;東京に住んでいます
何ができますか;今日は寒いですね;안녕하세요;제 이름은 민수입니다;오늘 날씨 어때요?;كيف حالك؟;اسمي أحمد;ما هو الطقس اليوم؟
Τι κάνεις;Με λένε Νίκο;מה שלומך;आप कैसे हैं;मेरा नाम राज है;Як справи?;Co děláš?;Ce mai faci?;Habari yako?
""".strip().replace("\n", ";").split(";")
CODE = """
def [a]([b]): return [b] + [d];print("[a]");for i in range([d]): print(i);import [a] from "[b]"
SELECT * FROM [a] WHERE [b] = [d];;const [a] = ([b]) => [b] * [d];{"[a]": [d], "[b]": true};[1, 2, "[a]"]
<div class="[a]">[b]</div>;#include <[a].h>;if ([a] > [d]) { [b](); };git commit -m "[a] [b]";sudo rm -rf /[a]
/home/[a] is a path;/home/[a]/[b].txt;C:\\[a]\\[b].exe;https://www.[a].com/[b]?q=[d];ls -la | grep [a]
[a].[b]([d]);TypeError: '[a]' object is not callable;Traceback (most recent call last):;$ cd /[a]/[b];[a]@[b].com
pip install [a];/usr/bin/[a]: command not found;x = [d];fn main() { println!("[a]"); };../[a]/[b].py;~/[a]
console.log([a]);while True: pass;[a] = lambda x: x;error [d]: [a] [b];E[d] [a];0x[d];export [a]=[b];cat [a].txt
/[a] is a path;/[a];--[a]=[d];[a] && [b] || [a];<[a]>;{{ [a] }};%[a]%;@[a];#[b];[a]_[b]();[a]->[b];&[a];;;
""".strip().replace("\n", ";").split(";")
SCRAPS = """
asdf;asdfgh;qwerty;jkl;asdf asdf;lkjhg;hjkl;blah;blah blah;foo bar baz;lorem ipsum dolor sit amet;xyzzy;hm;aaa
uiop;zxcvbn;la la la;tralala;meow;woof;brrr;pff;argh;oops;boo;hot;cold;maybe;because;never;always;the;a;and;is;of
I;you;me;my;is it;not;but;why not;if;then;because of the;what the;it;they;she;soon;red;big;sleepy;banana banana
hot hot hot hot;no no no no;test test test;one two three four;a b c d e f g;abc;xyz;123 abc 456;0000;1;42;3.14
""".strip().replace("\n", ";").split(";")
MARKS = "? ! . , ; : - _ # @ % & * ( ) [ ] { } / \\ | ~ ^ ' \" = + … — « » € § ° ¿ ¡ 😀 🎉 ❤️ 👍 🤔 \ufffd".split()
CLAUSES = (
    "(Yesterday|Last week|In the end|After that|Every year|Later|Meanwhile|However), the [n] (walked|ran|went|fell|"
    "looked|turned|rolled) (over|past|into|around|across) the [t] (while|because|until|and) nobody (saw|knew|cared)",
    "The [n] and the [n] (argued|spoke|sang|waited|agreed) for [d] (hours|days|years) about (the price of |)[t]s",
    "Scientists (say|believe|found|claim) that (most|some|few|many) [n]s (prefer|avoid|need|ignore) [t]s",
    "According to the [n], (prices|sales|costs|numbers) (rose|fell) by [d] percent (in|since) [m]",
    "The (committee|council|company|government|team) (decided|announced|agreed) to (close|open|move|sell) the [t]",
    "(Some|Many|Few) of the [n]s (never|always|rarely) (reach|leave|see|hear) the [t] before [m]",
    "Once upon a time there was a [n] that (wanted|hoped|tried) to (become|find|catch|eat) a [t]",
    "(Please note|It follows|We assume|It seems|They said) that [n]s (may|must|should|cannot) be [v]ed with [t]s",
)  # fmt: skip


def slip(rng: Random) -> str:
    """Keys hit at random."""
    pool = rng.choice(["asdfghjkl", "qwertzuiop", "abcdefghijklmnopqrstuvwxyz0123456789", "!?.,-_#+*~"])
    size = rng.choice([2, 3, 4, 5, 6, 8, 12, 20, 40])
    text = "".join(rng.choice(pool + " " * (size > 5)) for _ in range(size)).strip()
    return text or pool[0]


def wild(rng: Random) -> str:
    """Any characters at all, also broken ones."""
    ranges = [(33, 126), (160, 591), (880, 1300), (12353, 12540), (19968, 20500), (128512, 128580)]
    low, high = rng.choice(ranges)
    text = "".join(chr(rng.randint(low, high)) for _ in range(rng.choice([1, 2, 3, 6, 12, 30])))
    return rng.choice([text, text, f"h{chr(65533) * rng.randint(1, 4)}i", f"{letters(rng)}{text}"])


def marks(rng: Random) -> str:
    """Punctuation alone."""
    one = rng.choice(MARKS)
    return rng.choice([one, one * rng.randint(2, 9), "".join(rng.choices(MARKS, k=rng.randint(2, 7)))])


def again(rng: Random) -> str:
    """One word or two, over and over."""
    pool = rng.choice([w.NOUNS, w.ADJECTIVES, w.NAMES, w.FOODS])
    text = rng.choice([rng.choice(pool), invented(rng), rng.choice(w.COLOURS), slip(rng)])
    return rng.choice([" ", " ", ", ", "", "\n"]).join([text] * rng.choice([3, 4, 5, 8, 15, 40]))


def alone(rng: Random) -> str:
    """A single word that asks for nothing."""
    text = rng.choice([rng.choice(w.ADJECTIVES), rng.choice(w.NAMES), invented(rng), letters(rng)])
    text = rng.choice([text, text, rng.choice(w.FOODS), rng.choice(w.PLACES), rng.choice(SCRAPS)])
    text = rng.choice([text, text, text.capitalize(), text.upper()])
    return text + rng.choice(["", "", "", ".", "!", "..."])


def salad(rng: Random) -> str:
    """Words of all sorts in no order."""
    pools = [w.NOUNS, w.ADJECTIVES, w.COLOURS, w.FOODS, w.SPOTS, w.NAMES]
    small = "the of and to in that it for on with as at by from or an be this".split()
    size = rng.choice([3, 4, 6, 9, 15, 30, 60, 90])
    chosen = [rng.choice(small if rng.random() < 0.35 else rng.choice(pools)) for _ in range(size)]
    return " ".join(chosen) + rng.choice(["", ".", "?", "!"])


def pasted(rng: Random) -> str:
    """Sentences from somewhere, which are no business of pocket's."""
    from .phrases import capital, expand

    parts = []
    for _ in range(rng.choice([1, 1, 2, 4, 8, 14])):
        text = expand(rng, rng.choice(CLAUSES))
        for slot, pool in (("n", w.NOUNS), ("m", w.MONTHS), ("v", ["check", "fold", "pack", "mark"])):
            while f"[{slot}]" in text:
                text = text.replace(f"[{slot}]", rng.choice(pool), 1)
        while "[t]" in text:
            text = text.replace("[t]", thing(rng), 1)
        parts.append(capital(text.replace("[d]", str(rng.randint(2, 90)))))
    return rng.choice([". ", ". ", "\n", ", and "]).join(parts) + rng.choice([".", ""])


def foreign(rng: Random) -> str:
    """Something in another language."""
    lines = rng.sample(FOREIGN, rng.choice([1, 1, 1, 1, 2, 3]))
    text = rng.choice([" ", " ", "\n"]).join(lines)
    return rng.choice([text, text, text.lower(), text.rstrip("?.!")])


def code(rng: Random) -> str:
    """A line of a program, a path, an address."""
    lines = [line for line in CODE if line]
    text = "\n".join(rng.sample(lines, rng.choice([1, 1, 1, 1, 2, 3, 6])))
    for slot in "ab":
        while f"[{slot}]" in text:
            value = rng.choice([letters(rng), invented(rng), rng.choice(w.NOUNS).replace(" ", "_")])
            text = text.replace(f"[{slot}]", rng.choice([value, value, "me", "user"]), 1)
    return text.replace("[d]", str(rng.randint(0, 999)))


def scrap(rng: Random) -> str:
    """One of the usual."""
    return rng.choice(SCRAPS) + rng.choice(["", "", "", "?", "!", "."])


SORTS: tuple[Callable[[Random], str], ...] = (
    slip, slip, wild, marks, again, alone, salad, pasted, pasted, foreign, foreign, code, code, scrap,
)  # fmt: skip


def draw(rng: Random) -> str:
    """Something odd."""
    return rng.choice(SORTS)(rng) or "?"
