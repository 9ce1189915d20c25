"""Messages in other languages, answered in one sentence of the language: I speak only English well."""

# Sentences stand beside each other.
# ruff: noqa: E501

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from training.pocket import words as w
from training.pocket.frames import is_held_out, misspelled, one
from training.pocket.turns import Turn
from training.pocket.values import Source, invented, place


@dataclass(frozen=True)
class Language:
    """A language's name, the reply in it, and what people say; no spaces between the words of `dense` ones."""

    name: str
    reply: str
    trained: list[str]
    held: list[str]
    words: list[str]
    dense: bool

    @property
    def latin(self) -> bool:
        """Whether it is written in Latin letters."""
        return self.reply[0].isascii()


def language(name: str, reply: str, said: str, dense: bool = False) -> Language:
    """A language whose sentences are parted by line ends or bars."""
    sentences = [each.strip() for each in said.replace("\n", "|").split("|") if each.strip()]
    held = [each for each in sentences if is_held_out(each)] or sentences[-1:]
    trained = [each for each in sentences if each not in held]
    found = {
        word.strip("?!.,;:¿¡؟。？！，、") for each in trained for word in each.split() if "[" not in word
    }
    return Language(name, reply, trained, held, sorted(word for word in found if word), dense)


LANGUAGES = (
    language(
        "German",
        "Ich spreche nur Englisch gut.",
        """
Hallo! | Guten Tag | Guten Morgen! | Guten Abend | Gute Nacht | Hallo, wie geht es dir? | Wie geht's? | Wie heißt du? | Wer bist du? | Was kannst du? | Ich heiße [n]. | Mein Name ist [n] | Ich wohne in [p]. | Ich bin müde.
Wo wohnst du? | Kannst du mir helfen? | Kannst du Deutsch? | Sprichst du Deutsch? | Wie spät ist es? | Wie ist das Wetter heute? | Erzähl mir einen Witz. | Danke! | Vielen Dank | Bitte | Tschüss! | Auf Wiedersehen | Bis morgen
Ich habe einen Hund, er heißt [n]. | Meine Katze heißt [n]. | Was ist die Hauptstadt von Frankreich? | Schreib mir ein Gedicht über das Meer. | Ich verstehe dich nicht. | Warum ist der Himmel blau? | Ja, natürlich | Nein, danke
Was machst du gerade? | Ich liebe dich. | Wie alt bist du? | Ich arbeite als Lehrer in [p]. | Kannst du das übersetzen? | Was bedeutet das? | Wo ist der Bahnhof? | Ich hätte gerne einen Kaffee. | Heute ist ein schöner Tag. | Das ist falsch. | Erkläre mir bitte, was ein Cache ist. | Können wir Deutsch sprechen? | Was weißt du über mich?
""",
    ),
    language(
        "French",
        "Je ne parle bien que l'anglais.",
        """
Bonjour ! | Salut | Bonsoir | Bonne nuit | Bonjour, comment ça va ? | Comment allez-vous ? | Comment tu t'appelles ? | Qui es-tu ? | Que sais-tu faire ? | Je m'appelle [n]. | Mon nom est [n] | J'habite à [p]. | Je suis fatigué.
Où habites-tu ? | Peux-tu m'aider ? | Parlez-vous français ? | Tu parles français ? | Quelle heure est-il ? | Quel temps fait-il aujourd'hui ? | Raconte-moi une blague. | Merci beaucoup | Merci ! | S'il te plaît | Au revoir ! | À demain | À bientôt
J'ai un chien qui s'appelle [n]. | Mon chat s'appelle [n]. | Quelle est la capitale de l'Italie ? | Écris-moi un poème sur la mer. | Je ne comprends pas. | Pourquoi le ciel est-il bleu ? | Oui, bien sûr | Non, merci
Qu'est-ce que tu fais ? | Je t'aime. | Quel âge as-tu ? | Je travaille à [p]. | Peux-tu traduire ça ? | Qu'est-ce que cela veut dire ? | Où est la gare ? | Je voudrais un café. | Il fait beau aujourd'hui. | C'est faux. | Explique-moi ce que c'est. | C'est très gentil. | Que sais-tu de moi ?
""",
    ),
    language(
        "Spanish",
        "Solo hablo bien inglés.",
        """
¡Hola! | Buenos días | Buenas tardes | Buenas noches | Hola, ¿cómo estás? | ¿Qué tal? | ¿Cómo te llamas? | ¿Quién eres? | ¿Qué puedes hacer? | Me llamo [n]. | Mi nombre es [n] | Vivo en [p]. | Estoy cansado.
¿Dónde vives? | ¿Puedes ayudarme? | ¿Hablas español? | ¿Habla usted español? | ¿Qué hora es? | ¿Qué tiempo hace hoy? | Cuéntame un chiste. | Muchas gracias | ¡Gracias! | Por favor | ¡Adiós! | Hasta mañana | Hasta luego
Tengo un perro que se llama [n]. | Mi gato se llama [n]. | ¿Cuál es la capital de Francia? | Escríbeme un poema sobre el mar. | No entiendo. | ¿Por qué el cielo es azul? | Sí, claro | No, gracias
¿Qué haces? | Te quiero. | ¿Cuántos años tienes? | Trabajo en [p]. | ¿Puedes traducir esto? | ¿Qué significa eso? | ¿Dónde está la estación? | Quisiera un café. | Hoy hace buen tiempo. | Eso es falso. | Explícame qué es esto. | Eres muy amable. | ¿Qué sabes de mí?
""",
    ),
    language(
        "Italian",
        "Parlo bene solo l'inglese.",
        """
Ciao! | Buongiorno | Buonasera | Buonanotte | Ciao, come stai? | Come va? | Come ti chiami? | Chi sei? | Che cosa sai fare? | Mi chiamo [n]. | Il mio nome è [n] | Abito a [p]. | Sono stanco.
Dove abiti? | Puoi aiutarmi? | Parli italiano? | Lei parla italiano? | Che ore sono? | Che tempo fa oggi? | Raccontami una barzelletta. | Grazie mille | Grazie! | Per favore | Arrivederci! | A domani | A presto
Ho un cane che si chiama [n]. | Il mio gatto si chiama [n]. | Qual è la capitale della Francia? | Scrivimi una poesia sul mare. | Non capisco. | Perché il cielo è blu? | Sì, certo | No, grazie
Che cosa fai? | Ti amo. | Quanti anni hai? | Lavoro a [p]. | Puoi tradurre questo? | Che cosa significa? | Dov'è la stazione? | Vorrei un caffè. | Oggi è una bella giornata. | È sbagliato. | Spiegami che cos'è. | Sei molto gentile. | Che cosa sai di me?
""",
    ),
    language(
        "Portuguese",
        "Só falo bem inglês.",
        """
Olá! | Oi | Bom dia | Boa tarde | Boa noite | Olá, como você está? | Tudo bem? | Como você se chama? | Quem é você? | O que você sabe fazer? | Eu me chamo [n]. | Meu nome é [n] | Eu moro em [p]. | Estou cansado.
Onde você mora? | Você pode me ajudar? | Você fala português? | Que horas são? | Como está o tempo hoje? | Conte-me uma piada. | Muito obrigado | Obrigada! | Tchau! | Até amanhã | Até logo
Tenho um cachorro que se chama [n]. | Meu gato se chama [n]. | Qual é a capital da França? | Escreva um poema sobre o mar. | Não entendo. | Por que o céu é azul? | Sim, claro | Não, obrigado
O que você está fazendo? | Eu te amo. | Quantos anos você tem? | Eu trabalho em [p]. | Você pode traduzir isso? | O que significa isso? | Onde fica a estação? | Eu queria um café. | Hoje está um dia bonito. | Isso está errado. | Explique o que é isso. | O que você sabe sobre mim?
""",
    ),
    language(
        "Dutch",
        "Ik spreek alleen goed Engels.",
        """
Hallo daar! | Goedemorgen | Goedemiddag | Goedenavond | Goedenacht | Hallo, hoe gaat het? | Hoe gaat het met je? | Hoe heet je? | Wie ben jij? | Wat kun je? | Ik heet [n]. | Mijn naam is [n] | Ik woon in [p]. | Ik ben moe.
Waar woon je? | Kun je me helpen? | Spreek je Nederlands? | Hoe laat is het? | Wat voor weer is het vandaag? | Vertel me een grap. | Dank je wel | Bedankt! | Alsjeblieft | Tot ziens! | Tot morgen | Doei
Ik heb een hond die [n] heet. | Mijn kat heet [n]. | Wat is de hoofdstad van Frankrijk? | Schrijf een gedicht over de zee. | Ik begrijp het niet. | Waarom is de lucht blauw? | Ja, natuurlijk | Nee, bedankt
Wat ben je aan het doen? | Ik hou van je. | Hoe oud ben je? | Ik werk in [p]. | Kun je dit vertalen? | Wat betekent dat? | Waar is het station? | Ik wil graag een koffie. | Het is mooi weer vandaag. | Dat is niet juist. | Leg uit wat dat is. | Wat weet je over mij?
""",
    ),
    language(
        "Swedish",
        "Jag talar bara engelska bra.",
        """
Hej! | God morgon | God kväll | God natt | Hej, hur mår du? | Hur är läget? | Vad heter du? | Vem är du? | Vad kan du göra? | Jag heter [n]. | Mitt namn är [n] | Jag bor i [p]. | Jag är trött.
Var bor du? | Kan du hjälpa mig? | Talar du svenska? | Vad är klockan? | Hur är vädret idag? | Berätta ett skämt. | Tack så mycket | Tack! | Snälla | Hej då! | Vi ses imorgon | Jag har en hund som heter [n]. | Min katt heter [n].
Vad är huvudstaden i Frankrike? | Skriv en dikt om havet. | Jag förstår inte. | Varför är himlen blå? | Ja, självklart | Nej, tack | Vad gör du? | Jag älskar dig. | Hur gammal är du? | Jag arbetar i [p].
Kan du översätta det här? | Vad betyder det? | Var ligger stationen? | Jag skulle vilja ha en kaffe. | Det är en fin dag idag. | Det är fel. | Vad vet du om mig?
""",
    ),
    language(
        "Norwegian",
        "Jeg snakker bare engelsk godt.",
        """
God morgen | God kveld | Hei, hvordan går det? | Hvordan har du det? | Hva heter du? | Hva kan du gjøre? | Jeg heter [n]. | Navnet mitt er [n] | Jeg bor i [p]. | Jeg er trøtt.
Hvor bor du? | Kan du hjelpe meg? | Snakker du norsk? | Hva er klokka? | Hvordan er været i dag? | Fortell meg en vits. | Tusen takk | Takk! | Vær så snill | Ha det! | Vi sees i morgen | Jeg har en hund som heter [n]. | Katten min heter [n].
Hva er hovedstaden i Frankrike? | Skriv et dikt om havet. | Jeg forstår ikke. | Hvorfor er himmelen blå? | Ja, gjerne det | Nei takk | Hva gjør du nå? | Jeg elsker deg. | Hvor gammel er du? | Jeg jobber i [p].
Kan du oversette dette? | Hva betyr det? | Hvor er stasjonen? | Jeg vil gjerne ha en kaffe. | Det er en fin dag i dag. | Hva vet du om meg?
""",
    ),
    language(
        "Danish",
        "Jeg taler kun engelsk godt.",
        """
Hej! Hvordan går det? | Godmorgen | Godaften | Godnat | Hej, hvordan har du det? | Hvad hedder du? | Hvem er du? | Hvad kan du? | Jeg hedder [n]. | Mit navn er [n] | Jeg bor i [p] lige nu. | Jeg er træt. | Hvor bor du henne?
Kan du hjælpe mig? | Taler du dansk? | Hvad er klokken? | Hvordan er vejret i dag? | Fortæl mig en vittighed. | Mange tak | Tak skal du have! | Farvel! | Vi ses i morgen | Jeg har en hund, der hedder [n]. | Min kat hedder [n].
Hvad er hovedstaden i Frankrig? | Skriv et digt om havet. | Jeg forstår det ikke. | Hvorfor er himlen blå? | Ja, selvfølgelig | Nej tak | Hvad laver du? | Jeg elsker dig. | Hvor gammel er du egentlig? | Jeg arbejder i [p].
Kan du oversætte det her? | Hvad betyder det? | Hvor ligger stationen? | Jeg vil gerne have en kop kaffe. | Hvad ved du om mig?
""",
    ),
    language(
        "Finnish",
        "Puhun hyvin vain englantia.",
        """
Hei! | Moi | Terve | Hyvää huomenta | Hyvää päivää | Hyvää iltaa | Hyvää yötä | Mitä kuuluu? | Miten menee? | Mikä sinun nimesi on? | Kuka sinä olet? | Mitä osaat tehdä? | Minun nimeni on [n]. | Olen [n] | Asun kaupungissa [p]. | Olen väsynyt.
Missä asut? | Voitko auttaa minua? | Puhutko suomea? | Paljonko kello on? | Millainen sää on tänään? | Kerro vitsi. | Kiitos paljon | Kiitos! | Näkemiin! | Huomiseen | Hei hei | Minulla on koira, jonka nimi on [n]. | Kissani nimi on [n].
Mikä on Ranskan pääkaupunki? | Kirjoita runo merestä. | En ymmärrä. | Miksi taivas on sininen? | Kyllä, tietenkin | Ei kiitos | Mitä teet? | Rakastan sinua. | Kuinka vanha olet? | Olen töissä tänään.
Voitko kääntää tämän? | Mitä se tarkoittaa? | Missä on asema? | Saisinko kahvin? | Tänään on kaunis päivä. | Mitä tiedät minusta?
""",
    ),
    language(
        "Polish",
        "Dobrze mówię tylko po angielsku.",
        """
Cześć! | Dzień dobry | Dobry wieczór | Dobranoc | Cześć, jak się masz? | Co słychać? | Jak masz na imię? | Kim jesteś? | Co potrafisz? | Mam na imię [n]. | Nazywam się [n] | Mieszkam w [p]. | Jestem zmęczony.
Gdzie mieszkasz? | Czy możesz mi pomóc? | Czy mówisz po polsku? | Która jest godzina? | Jaka jest dzisiaj pogoda? | Opowiedz mi dowcip. | Dziękuję bardzo | Dzięki! | Proszę | Do widzenia! | Do jutra | Na razie
Mam psa, który nazywa się [n]. | Mój kot nazywa się [n]. | Jaka jest stolica Francji? | Napisz wiersz o morzu. | Nie rozumiem. | Dlaczego niebo jest niebieskie? | Tak, oczywiście | Nie, dziękuję
Co robisz? | Kocham cię. | Ile masz lat? | Pracuję w [p]. | Czy możesz to przetłumaczyć? | Co to znaczy? | Gdzie jest dworzec? | Poproszę kawę. | Dzisiaj jest piękny dzień. | To nieprawda. | Co o mnie wiesz?
""",
    ),
    language(
        "Czech",
        "Dobře mluvím jen anglicky.",
        """
Ahoj! | Dobrý den | Dobré ráno | Dobrý večer | Dobrou noc | Ahoj, jak se máš? | Jak se jmenuješ? | Kdo jsi? | Co umíš? | Jmenuji se [n]. | Moje jméno je [n] | Bydlím v [p]. | Jsem unavený.
Kde bydlíš? | Můžeš mi pomoct? | Mluvíš česky? | Kolik je hodin? | Jaké je dnes počasí? | Řekni mi vtip. | Děkuji moc | Díky! | Prosím | Na shledanou! | Uvidíme se zítra | Mám psa, který se jmenuje [n]. | Moje kočka se jmenuje [n].
Jaké je hlavní město Francie? | Napiš báseň o moři. | Nerozumím. | Proč je nebe modré? | Ano, samozřejmě | Ne, děkuji | Co děláš? | Miluji tě. | Kolik je ti let? | Pracuji v [p].
Můžeš to přeložit? | Co to znamená? | Kde je nádraží? | Dal bych si kávu. | Dnes je krásný den. | To není pravda. | Co o mně víš?
""",
    ),
    language(
        "Hungarian",
        "Csak angolul beszélek jól.",
        """
Szia! | Sziasztok | Jó reggelt! | Jó napot kívánok | Jó estét | Jó éjszakát | Szia, hogy vagy? | Mi újság? | Hogy hívnak? | Ki vagy te? | Mit tudsz? | A nevem [n]. | Engem [n] néven hívnak. | Én [n] vagyok | Itt lakom: [p]. | Fáradt vagyok.
Hol laksz? | Tudsz segíteni? | Beszélsz magyarul? | Tudsz magyarul? | Hány óra van? | Milyen az idő ma? | Mesélj egy viccet. | Köszönöm szépen | Köszi! | Kérlek | Viszontlátásra! | Holnap találkozunk | Viszlát
Van egy kutyám, a neve [n]. | A macskámat [n] névre keresztelték. | Mi Franciaország fővárosa? | Írj egy verset a tengerről. | Nem értem. | Miért kék az ég? | Igen, persze | Nem, köszönöm
Mit csinálsz? | Szeretlek. | Hány éves vagy? | Tanárként dolgozom. | Le tudod ezt fordítani? | Mit jelent ez? | Hol van az állomás? | Kérek egy kávét. | Ma szép nap van. | Ez nem igaz. | Mit tudsz rólam?
""",
    ),
    language(
        "Romanian",
        "Vorbesc bine doar engleza.",
        """
Bună! | Salut, ce mai faci? | Bună ziua | Bună dimineața | Bună seara | Noapte bună | Cum te cheamă? | Cine ești? | Ce știi să faci? | Mă numesc [n]. | Numele meu este [n] | Locuiesc în [p]. | Sunt obosit.
Unde locuiești? | Mă poți ajuta? | Vorbești românește? | Cât este ceasul? | Cum este vremea astăzi? | Spune-mi o glumă. | Mulțumesc mult | Mersi! | Te rog | La revedere! | Pe mâine | Am un câine pe care îl cheamă [n]. | Pisica mea se numește [n].
Care este capitala Franței? | Scrie o poezie despre mare. | Nu înțeleg. | De ce este cerul albastru? | Da, desigur | Nu, mulțumesc | Ce faci? | Te iubesc. | Câți ani ai? | Lucrez în [p].
Poți să traduci asta? | Ce înseamnă asta? | Unde este gara? | Aș dori o cafea. | Astăzi este o zi frumoasă. | Ce știi despre mine?
""",
    ),
    language(
        "Turkish",
        "Sadece İngilizceyi iyi konuşuyorum.",
        """
Merhaba! | Selam | Günaydın | İyi günler | İyi akşamlar | İyi geceler | Merhaba, nasılsın? | Ne haber? | Adın ne? | Sen kimsin? | Ne yapabilirsin? | Benim adım [n]. | Adım [n] | Şehrim [p]. | Yorgunum.
Nerede yaşıyorsun? | Bana yardım eder misin? | Türkçe biliyor musun? | Türkçe konuşuyor musun? | Saat kaç? | Bugün hava nasıl? | Bana bir fıkra anlat. | Çok teşekkür ederim | Teşekkürler! | Lütfen | Hoşça kal! | Yarın görüşürüz | Güle güle
Köpeğimin adı [n]. | Kedimin adı [n]. | Fransa'nın başkenti neresi? | Deniz hakkında bir şiir yaz. | Anlamıyorum. | Gökyüzü neden mavi? | Evet, tabii ki | Hayır, teşekkürler
Ne yapıyorsun? | Seni seviyorum. | Kaç yaşındasın? | Öğretmen olarak çalışıyorum. | Bunu çevirebilir misin? | Bu ne demek? | İstasyon nerede? | Bir kahve istiyorum. | Bugün güzel bir gün. | Bu yanlış. | Benim hakkımda ne biliyorsun?
""",
    ),
    language(
        "Russian",
        "Я хорошо говорю только по-английски.",
        """
privet | spasibo | kak dela? | zdravstvuyte | Привет! | Здравствуйте | Доброе утро | Добрый день | Добрый вечер | Спокойной ночи | Привет, как дела? | Как тебя зовут? | Кто ты? | Что ты умеешь? | Меня зовут [n]. | Моё имя [n] | Я живу в городе [p]. | Я устал.
Где ты живёшь? | Ты можешь мне помочь? | Ты говоришь по-русски? | Который час? | Какая сегодня погода? | Расскажи анекдот. | Большое спасибо | Спасибо! | Пожалуйста | До свидания! | До завтра | Пока
У меня есть собака, её зовут [n]. | Мою кошку зовут [n]. | Какая столица Франции? | Напиши стихотворение о море. | Я не понимаю. | Почему небо голубое? | Да, конечно | Нет, спасибо
Что ты делаешь? | Я тебя люблю. | Сколько тебе лет? | Я работаю учителем. | Можешь это перевести? | Что это значит? | Где вокзал? | Я хочу кофе. | Сегодня прекрасный день. | Это неправда. | Что ты знаешь обо мне?
""",
    ),
    language(
        "Ukrainian",
        "Я добре розмовляю лише англійською.",
        """
Привіт! | Вітаю | Доброго ранку | Добрий день усім | Добрий вечір | На добраніч | Привіт, як справи? | Як тебе звати? | Хто ти? | Що ти вмієш? | Мене звати [n]. | Моє ім'я [n] | Я живу в місті [p]. | Я втомився.
Де ти живеш? | Ти можеш мені допомогти? | Ти розмовляєш українською? | Котра година? | Яка сьогодні погода? | Розкажи жарт. | Дуже дякую | Дякую! | Будь ласка | До побачення! | До завтра, друже | Бувай
У мене є собака, його звати [n]. | Мою кішку звати [n]. | Яка столиця Франції? | Напиши вірш про море. | Я не розумію. | Чому небо синє? | Так, звичайно | Ні, дякую
Що ти робиш? | Я тебе кохаю. | Скільки тобі років? | Я працюю вчителем. | Можеш це перекласти? | Що це означає? | Де вокзал? | Я хочу каву. | Сьогодні чудовий день. | Що ти знаєш про мене?
""",
    ),
    language(
        "Greek",
        "Μιλάω καλά μόνο αγγλικά.",
        """
kalimera | efharisto | ti kaneis? | Γεια σου! | Γεια | Καλημέρα | Καλησπέρα | Καληνύχτα | Γεια σου, τι κάνεις; | Πώς είσαι; | Πώς σε λένε; | Ποιος είσαι; | Τι μπορείς να κάνεις; | Με λένε [n]. | Το όνομά μου είναι [n] | Μένω στην πόλη [p]. | Είμαι κουρασμένος.
Πού μένεις; | Μπορείς να με βοηθήσεις; | Μιλάς ελληνικά; | Τι ώρα είναι; | Τι καιρό κάνει σήμερα; | Πες μου ένα αστείο. | Ευχαριστώ πολύ | Ευχαριστώ! | Παρακαλώ | Αντίο! | Τα λέμε αύριο | Έχω έναν σκύλο που τον λένε [n]. | Τη γάτα μου τη λένε [n].
Ποια είναι η πρωτεύουσα της Γαλλίας; | Γράψε ένα ποίημα για τη θάλασσα. | Δεν καταλαβαίνω. | Γιατί ο ουρανός είναι μπλε; | Ναι, φυσικά | Όχι, ευχαριστώ | Σ' αγαπώ. | Πόσων χρονών είσαι; | Μπορείς να το μεταφράσεις; | Τι σημαίνει αυτό; | Πού είναι ο σταθμός; | Θα ήθελα έναν καφέ. | Σήμερα είναι ωραία μέρα. | Τι ξέρεις για μένα;
""",
    ),
    language(
        "Arabic",
        "أنا أتحدث الإنجليزية فقط بشكل جيد.",
        """
marhaba | salam aleikum | shukran | kayf halak? | مرحبا! | السلام عليكم | أهلا | صباح الخير | مساء الخير | تصبح على خير | كيف حالك؟ | مرحبا، كيف حالك؟ | ما اسمك؟ | من أنت؟ | ماذا تستطيع أن تفعل؟ | اسمي [n]. | أنا [n] | أعيش في [p]. | أنا متعب.
أين تعيش؟ | هل يمكنك مساعدتي؟ | هل تتكلم العربية؟ | هل تتحدث العربية؟ | كم الساعة؟ | كيف الطقس اليوم؟ | احك لي نكتة. | شكرا جزيلا | شكرا! | من فضلك | مع السلامة! | أراك غدا | عندي كلب اسمه [n]. | قطتي اسمها [n].
ما هي عاصمة فرنسا؟ | اكتب قصيدة عن البحر. | لا أفهم. | لماذا السماء زرقاء؟ | نعم، بالطبع | لا، شكرا | ماذا تفعل؟ | أنا أحبك. | كم عمرك؟ | أعمل في [p]. | ما معنى هذا؟ | أين المحطة؟ | أريد قهوة. | اليوم يوم جميل. | ماذا تعرف عني؟
""",
    ),
    language(
        "Hebrew",
        "אני מדבר היטב רק אנגלית.",
        """
shalom | toda raba | ma nishma? | boker tov | שלום! | היי | בוקר טוב | ערב טוב | לילה טוב | שלום, מה שלומך? | מה נשמע? | איך קוראים לך? | מי אתה? | מה אתה יודע לעשות? | קוראים לי [n]. | השם שלי [n] | אני גר ב[p]. | אני עייף.
איפה אתה גר? | אתה יכול לעזור לי? | אתה מדבר עברית? | מה השעה? | מה מזג האוויר היום? | ספר לי בדיחה. | תודה רבה | תודה! | בבקשה | להתראות! | נתראה מחר | יש לי כלב בשם [n]. | לחתול שלי קוראים [n].
מה בירת צרפת? | כתוב שיר על הים. | אני לא מבין. | למה השמיים כחולים? | כן, כמובן | לא, תודה | מה אתה עושה? | אני אוהב אותך. | בן כמה אתה? | אני עובד ב[p]. | מה זה אומר? | איפה התחנה? | אני רוצה קפה. | היום יום יפה. | מה אתה יודע עליי?
""",
    ),
    language(
        "Hindi",
        "मैं केवल अंग्रेज़ी अच्छी तरह बोलता हूँ।",
        """
namaste | dhanyavaad | aap kaise hain? | shukriya | नमस्ते! | नमस्कार | सुप्रभात | शुभ रात्रि | आप कैसे हैं? | तुम कैसे हो? | आपका नाम क्या है? | आप कौन हैं? | आप क्या कर सकते हैं? | मेरा नाम [n] है। | मैं [n] हूँ | मैं [p] में रहता हूँ। | मैं थक गया हूँ।
आप कहाँ रहते हैं? | क्या आप मेरी मदद कर सकते हैं? | क्या आप हिंदी बोलते हैं? | कितने बजे हैं? | आज मौसम कैसा है? | मुझे एक चुटकुला सुनाओ। | बहुत धन्यवाद | धन्यवाद! | कृपया | अलविदा! | कल मिलेंगे | मेरे कुत्ते का नाम [n] है। | मेरी बिल्ली का नाम [n] है।
फ्रांस की राजधानी क्या है? | समुद्र पर एक कविता लिखो। | मुझे समझ नहीं आया। | आसमान नीला क्यों है? | हाँ, ज़रूर | नहीं, धन्यवाद | आप क्या कर रहे हैं? | मैं तुमसे प्यार करता हूँ। | आपकी उम्र क्या है? | इसका मतलब क्या है? | स्टेशन कहाँ है? | आज बहुत अच्छा दिन है। | आप मेरे बारे में क्या जानते हैं?
""",
    ),
    language(
        "Chinese",
        "我只会说英语。",
        """
ni hao | xie xie | ni hao ma? | zai jian | 你好！ | 您好 | 早上好 | 下午好 | 晚上好 | 晚安 | 你好吗？ | 你叫什么名字？ | 你是谁？ | 你会做什么？ | 我叫[n]。 | 我的名字是[n] | 我住在[p]。 | 我很累。 | 你住在哪里？ | 你能帮我吗？ | 你会说中文吗？ | 现在几点了？ | 今天天气怎么样？ | 给我讲个笑话。
非常感谢 | 谢谢！ | 请 | 再见！ | 明天见 | 我有一只狗，叫[n]。 | 我的猫叫[n]。 | 法国的首都是哪里？ | 写一首关于大海的诗。 | 我不明白。 | 天空为什么是蓝色的？ | 是的，当然 | 不用了，谢谢 | 你在做什么？ | 我爱你。 | 你多大了？ | 我在[p]工作。 | 你能翻译这个吗？ | 这是什么意思？ | 车站在哪里？ | 我想要一杯咖啡。 | 今天是个好日子。 | 你知道关于我的什么？ | 我们可以说中文吗？ | 为什么？ | 这不对。
""",
        dense=True,
    ),
    language(
        "Japanese",
        "私は英語しかうまく話せません。",
        """
konnichiwa | arigato | ohayo gozaimasu | genki desu ka? | こんにちは！ | おはようございます | こんばんは | おやすみなさい | お元気ですか？ | お名前は何ですか？ | あなたは誰ですか？ | 何ができますか？ | 私の名前は[n]です。 | 私は[n]です | 私は[p]に住んでいます。 | 疲れました。 | どこに住んでいますか？ | 手伝ってくれますか？ | 日本語を話せますか？ | 今何時ですか？ | 今日の天気はどうですか？ | 冗談を言ってください。
どうもありがとうございます | ありがとう！ | お願いします | さようなら！ | また明日 | [n]という犬を飼っています。 | 私の猫の名前は[n]です。 | フランスの首都はどこですか？ | 海についての詩を書いてください。 | わかりません。 | なぜ空は青いのですか？ | はい、もちろん | いいえ、結構です | 何をしていますか？ | 愛しています。 | 何歳ですか？ | これを翻訳できますか？ | これはどういう意味ですか？ | 駅はどこですか？ | コーヒーをください。 | 今日はいい日ですね。 | 私について何を知っていますか？ | すみません | それは違います。
""",
        dense=True,
    ),
    language(
        "Korean",
        "저는 영어만 잘해요.",
        """
annyeong | annyeonghaseyo | kamsahamnida | 안녕하세요! | 안녕 | 좋은 아침이에요 | 안녕히 주무세요 | 어떻게 지내세요? | 이름이 뭐예요? | 당신은 누구세요? | 무엇을 할 수 있어요? | 제 이름은 [n]이에요. | 저는 [n]입니다 | 저는 [p]에 살아요. | 피곤해요. | 어디에 살아요? | 도와주실 수 있어요? | 한국어 할 수 있어요? | 지금 몇 시예요? | 오늘 날씨 어때요? | 농담 하나 해 주세요.
정말 감사합니다 | 고마워요! | 부탁해요 | 안녕히 계세요! | 내일 봐요 | 우리 강아지 이름은 [n]이에요. | 제 고양이 이름은 [n]이에요. | 프랑스의 수도는 어디예요? | 바다에 대한 시를 써 주세요. | 이해가 안 돼요. | 하늘은 왜 파란색이에요? | 네, 물론이죠 | 아니요, 괜찮아요 | 뭐 하고 있어요? | 사랑해요. | 몇 살이에요? | 이거 번역해 줄 수 있어요? | 무슨 뜻이에요? | 역이 어디예요? | 커피 주세요. | 오늘은 좋은 날이에요. | 저에 대해 뭘 알아요?
""",
    ),
    language(
        "Vietnamese",
        "Tôi chỉ nói tốt tiếng Anh.",
        """
Xin chào! | Chào bạn | Chào buổi sáng | Chúc ngủ ngon | Bạn khỏe không? | Bạn tên là gì? | Bạn là ai? | Bạn có thể làm gì? | Tôi tên là [n]. | Tên tôi là [n] | Tôi sống ở [p]. | Tôi mệt quá. | Bạn sống ở đâu? | Bạn có thể giúp tôi không? | Bạn có nói tiếng Việt không? | Bây giờ là mấy giờ? | Thời tiết hôm nay thế nào? | Kể cho tôi một câu chuyện cười.
Cảm ơn rất nhiều | Cảm ơn bạn! | Làm ơn | Tạm biệt! | Hẹn gặp lại ngày mai | Tôi có một con chó tên là [n]. | Con mèo của tôi tên là [n]. | Thủ đô của Pháp là gì? | Viết một bài thơ về biển. | Tôi không hiểu. | Tại sao bầu trời màu xanh? | Vâng, tất nhiên | Không, cảm ơn | Bạn đang làm gì? | Tôi yêu bạn. | Bạn bao nhiêu tuổi? | Cái này nghĩa là gì? | Nhà ga ở đâu? | Cho tôi một ly cà phê. | Hôm nay trời đẹp. | Bạn biết gì về tôi?
""",
    ),
    language(
        "Indonesian",
        "Saya hanya bisa berbahasa Inggris dengan baik.",
        """
Halo, apa kabar? | Selamat pagi | Selamat siang | Selamat malam | Selamat tidur | Apa kabar hari ini? | Siapa nama kamu? | Siapa kamu? | Apa yang bisa kamu lakukan? | Nama saya [n]. | Saya tinggal di [p]. | Saya lelah. | Kamu tinggal di mana? | Bisakah kamu membantu saya? | Apakah kamu bisa berbahasa Indonesia? | Jam berapa sekarang? | Bagaimana cuaca hari ini? | Ceritakan sebuah lelucon.
Terima kasih banyak | Terima kasih! | Tolong bantu saya | Sampai jumpa! | Sampai besok | Saya punya anjing bernama [n]. | Nama kucing saya [n]. | Apa ibu kota Prancis? | Tulis puisi tentang laut. | Saya tidak mengerti. | Mengapa langit berwarna biru? | Ya, tentu saja | Tidak, terima kasih | Kamu sedang apa? | Aku cinta kamu. | Berapa umur kamu? | Apa artinya ini? | Di mana stasiun? | Saya mau kopi. | Hari ini cuacanya bagus. | Apa yang kamu tahu tentang saya?
""",
    ),
)

# Too many of their words are the same to tell them by any few.
ALIKE = ("Danish", "Norwegian")


def other_language(source: Source, advert: bool) -> Turn:
    """A message in another language: sentences, or its words in any order."""
    rng = source.rng
    found = one(rng, LANGUAGES)
    side = found.held if source.held else found.trained
    if rng.random() < 0.3 and not source.held and not found.dense and found.name not in ALIKE:
        # Any words of the language, so that it is known by them and not by a sentence.
        text = " ".join(one(rng, found.words) for _ in range(3 + int(rng.random() * 7)))
        text = text if rng.random() < 0.5 else text[:1].upper() + text[1:] + one(rng, ("", ".", "?"))
    else:
        text = ("" if found.dense else " ").join(
            one(rng, side) for _ in range(one(rng, (1, 1, 1, 1, 2, 2, 3)))
        )
        chance = rng.random()
        if chance < 0.3 and "[" not in text:
            text = text.lower()
        if chance > 0.75:
            text = text.rstrip("?!.。？！؟;")
        if chance > 0.95 and "[" not in text:
            text = misspelled(rng, text)
    if found.latin and rng.random() < 0.15:
        # Typed without accents.
        text = "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each))
        text = (
            text.lstrip("¡¿").replace("ß", "ss").replace("¿", "").replace("¡", "").lower()
            if rng.random() < 0.5
            else text
        )
    while "[n]" in text:
        text = text.replace("[n]", one(rng, w.NAMES) if rng.random() < 0.7 else invented(rng).capitalize(), 1)
    while "[p]" in text:
        text = text.replace("[p]", place(rng), 1)
    return Turn(text.strip(), f"{found.name}.", found.reply, "language")


MAKERS: dict[str, tuple[float, Callable[[Source, bool], Turn]]] = {"language": (7, other_language)}
