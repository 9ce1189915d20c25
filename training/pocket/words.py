"""Word lists for the generated conversations."""


def spaced(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


def entries(text: str) -> list[str]:
    """The entries of a text, apart by semicolons or line ends."""
    return text.strip().replace("\n", ";").split(";")


NAMES = spaced("""
Ada Alan Alice Amir Amy Anna Anton Aria Arthur Astrid Ben Bella Bruno Carla Carlos Cathy Chen
Chloe Claire Clara Cyrus Daisy Dan Daria David Dexter Diana Dora Edgar Elena Eli Ella Elsa Emil
Emma Eric Esther Eva Felix Finn Fiona Frank Fred Freya George Gina Grace Greta Gus Hana Hannah
Harry Hassan Hector Heidi Helen Henry Hugo Ian Ida Igor Ingrid Iris Ivan Jack Jacob James Jamal
Jane Jasper Jean Jill Joan Joe John Jonas Jorge Judy Julia Karen Karl Kate Kenji Kim Lara Lars
Laura Lea Lena Leo Liam Lila Linda Lisa Lola Lucas Lucy Luis Luna Maria Mark Marta Martin Mary
Max Maya Mei Mia Mike Milo Mina Mohammed Mona Nadia Nate Nick Nina Noah Nora Olga Oliver Olivia
Omar Oscar Otto Paul Paula Pedro Penny Peter Petra Phil Pia Priya Quinn Rachel Raj Ravi Rita
Robert Robin Rosa Ruby Ruth Sally Sam Samir Sandra Sara Simon Sofia Sonia Stella Steve Susan Sven
Tanya Tara Ted Theo Tim Tina Tom Tony Uma Ursula Vera Victor Viola Wanda Wendy Will Xavier Yara
Yuki Yusuf Zara Zoe Agnes Andreas Boris Charles Chris Doris Elias Frances Hans Ines Jens Klaus Linus
Lois Louis Marcus Matthias Miles Moses Nils Silas Thomas Tobias
""")

SURNAMES = spaced("""
Smith Jones Brown Taylor Wilson Miller Moore Clark Lewis Young King Wright Scott Green Baker Adams
Nelson Hill Campbell Mitchell Carter Turner Parker Evans Collins Stewart Morris Rogers Reed Cook
Bell Murphy Bailey Cooper Richards Cox Howard Ward Torres Peters Gray Watson Brooks Kelly Sanders
Price Bennett Wood Barnes Ross Fisher Weber Schmidt Rossi Silva Tanaka Novak Larsen Dubois Khan
""")

PLACES = spaced("""
Lisbon Oslo Paris London Berlin Madrid Rome Vienna Prague Dublin Athens Helsinki Warsaw Budapest
Zurich Geneva Milan Naples Porto Seville Barcelona Valencia Hamburg Munich Cologne Dresden Leipzig
Amsterdam Rotterdam Utrecht Brussels Antwerp Ghent Copenhagen Stockholm Bergen Reykjavik Tallinn
Riga Vilnius Krakow Zagreb Belgrade Sofia Bucharest Istanbul Ankara Cairo Tunis Lagos Nairobi Accra
Tokyo Kyoto Osaka Seoul Beijing Shanghai Delhi Mumbai Chennai Bangkok Hanoi Jakarta Manila Sydney
Melbourne Perth Auckland Wellington Toronto Montreal Vancouver Boston Chicago Denver Dallas Austin
Houston Seattle Portland Phoenix Miami Atlanta Detroit Lima Bogota Quito Santiago Havana Leeds
Bristol Glasgow Edinburgh Manchester Liverpool Cardiff Oxford Cambridge York Bath Norwich Galway
Iceland Norway Sweden Finland Denmark Poland Spain Portugal Italy Greece Turkey Egypt Kenya Ghana
Japan Korea China India Nepal Brazil Chile Peru Mexico Canada Ireland Scotland Wales Austria Malta
""")

COLOURS = spaced("""
red blue green yellow orange purple pink brown black white grey teal turquoise violet magenta cyan
beige crimson scarlet maroon navy olive lime gold silver bronze copper ivory lavender lilac indigo
amber coral peach mint mustard burgundy khaki ochre plum salmon charcoal emerald
""")

ANIMALS = spaced("""
dog cat parrot hamster rabbit horse goldfish turtle snake lizard pony donkey goat sheep pig hen duck
goose ferret mouse rat canary budgie tortoise gecko spider frog llama alpaca cow bull
puppy kitten bunny bird fish chicken hedgehog owl fox ox iguana monkey pet
""")

PEOPLE = entries("""
sister;brother;mother;father;mum;mom;dad;aunt;uncle;cousin;niece;nephew;grandmother;grandfather
grandma;grandpa;wife;husband;partner;girlfriend;boyfriend;daughter;son;best friend;friend;boss
manager;neighbour;neighbor;teacher;doctor;dentist;landlord;flatmate;roommate;colleague;coach
coworker;baby;twin sister;little brother;big sister;older brother;younger sister;mentor;vet
hairdresser;trainer;assistant;stepmother;godfather;fiance;lawyer;tutor;therapist;piano teacher
yoga teacher;math teacher;team leader;tennis partner;pen pal;supervisor;professor;driver
""")

THINGS = entries("""
key;keys;bike;bicycle;car;van;boat;phone;laptop;tablet;camera;watch;ring;wallet;purse;bag;backpack
suitcase;umbrella;coat;jacket;hat;scarf;gloves;shoes;boots;glasses;sunglasses;passport;ticket
tickets;book;notebook;diary;pen;letter;parcel;package;box;lamp;clock;mirror;guitar;piano;violin
drum;ball;kite;tent;ladder;hammer;drill;saw;rope;bucket;broom;vase;plant;flower;tree;cake;bread
cheese;jam;honey;cup;mug;plate;bottle;teapot;kettle;pan;knife;spoon;charger;cable;battery;printer
router;speaker;headphones;remote;torch;candle;blanket;pillow;towel;map;spare key;car keys;ladder
medicine;documents;contract;certificate;receipt;present;gift;treasure;money;tools;robot;statue
""")

SPOTS = entries("""
drawer;kitchen;garage;attic;basement;cellar;garden;shed;bedroom;bathroom;hall;office;cupboard
wardrobe;closet;fridge;freezer;car;van;boot;trunk;suitcase;backpack;bag;box;desk;shelf;bookcase
living room;hallway;guest room;locker;safe;tent;barn;workshop;library;drawer of the desk;cabinet
""")

SURFACES = entries("""
table;bed;sofa;desk;chair;doormat;shelf;fridge;piano;stairs;window;door;carpet;bench;tree;rug
kitchen table;old oven;mat;lamp;roof;flower pot;nightstand;bookshelf;tv;stove;counter;pillow
""")

ADJECTIVES = spaced("""
big small old new red blue green black white golden silver broken shiny dusty secret hidden second
first third last next spare main front back upper lower inner outer little large tiny giant quiet
noisy fast slow cheap dear rare common magic lucky local weekly daily monthly public private annual
wooden metal plastic paper striped round square tall short heavy light warm cold dry wet sweet sour
""")

NOUNS = spaced("""
access account address album alarm anchor angle answer apple archive arrow badge band bank barrel
basket beach bean bell bench berry bird blade board boat bolt bone boss bottle bowl bridge brush
budget building bus button cabin cable cafe camp canal candle card carpet castle chain chapter
chart class client clinic club coach coast code coffee coin colour company concert contact contest
copy corner cottage cotton course court crane crew crown deck delivery desk diet door dream dress
driver drum engine entry event exit export farm fence festival field file film filter flag flight
floor flute folder forest fork form fossil frame friend fruit game garden gate glass goal group
guest guide hall harbour hat hill holiday hook hotel house hub insurance island item jar job
journal juice kit kitchen lab lake lamp lane laundry leader leaf lecture lemon library lift list
lodge machine magnet market mask match meal medal meeting menu metro mill mirror model motor
mountain museum needle network night nurse oak office oil orchard order oven owner page paint
palace parade park parking partner party path patrol pearl pencil pepper phone photo picture pilot
pipe planet player poem pond pool poster potato price prize project puzzle quiz radio railway rain
recipe region rental report rice river road rocket roof room rose route salad sample sauce school
score screen sensor server shelf ship shop show signal singer site song soup squad stage stamp
star station stone storage store street studio subject subway sugar supper survey table tank target
taxi team temple tenant test theatre ticket tower town track trail train treaty trip truck tunnel
umbrella uncle vault village visa visitor voucher wagon walk wall warehouse water wheel window
wine winner winter wizard workshop yard zone
""")

FOODS = spaced("""
pizza pasta sushi rice bread cheese apples bananas mango strawberries cherries grapes oranges
pancakes waffles soup salad curry tacos burritos noodles ramen dumplings lasagne risotto paella
porridge toast eggs bacon ham chicken beef lamb fish salmon tuna shrimp tofu beans lentils potatoes
carrots peas spinach broccoli mushrooms onions garlic tomatoes peppers olives honey jam butter
chocolate cookies cake peanuts almonds walnuts hazelnuts nuts milk gluten eggs shellfish
soy sesame pollen dust penicillin kiwi celery mustard wheat peaches pears plums figs dates falafel
""")

DRINKS = entries("""
tea;coffee;green tea;black coffee;water;milk;orange juice;apple juice;lemonade;cola;cocoa;beer
red wine;white wine;cider;mint tea;hot chocolate;oat milk;tomato juice;espresso;iced tea;soda
""")

JOBS = entries("""
nurse;teacher;doctor;pilot;baker;plumber;carpenter;lawyer;painter;farmer;chef;cook;waiter;driver
writer;journalist;architect;engineer;software engineer;programmer;designer;gardener;musician;actor
singer;dancer;librarian;vet;dentist;butcher;barber;tailor;clerk;cashier;electrician;mechanic;judge
policeman;firefighter;soldier;sailor;student;translator;historian;chemist;physicist;biologist
geologist;astronomer;photographer;florist;beekeeper;data scientist;taxi driver;bus driver;postman
""")

CARS = entries("""
Volvo;Toyota;Honda;Ford;Fiat;Renault;Peugeot;Tesla;Audi;Mazda;Skoda;Nissan;Kia;Subaru;Jeep;Mini
red Fiat;blue Volvo;white van;old Saab;green Beetle;Toyota Corolla;Ford Focus;Honda Civic;Fiat Panda
""")

ACTIVITIES = entries("""
chess;football;tennis;golf;rugby;cricket;basketball;volleyball;badminton;hockey;poker;darts;squash
swimming;running;hiking;climbing;cycling;sailing;rowing;skiing;skating;surfing;dancing;singing
painting;drawing;knitting;sewing;gardening;cooking;baking;reading;fishing;camping;yoga;photography
juggling;karate;judo;boxing;archery;pottery;birdwatching;puzzles;board games;video games;origami
""")

INSTRUMENTS = entries("""
the piano;the guitar;the violin;the cello;the flute;the drums;the trumpet;the harp;the clarinet;bass
the saxophone;the organ;the banjo;the accordion;the oboe;the viola;the ukulele;the trombone;piano
guitar;violin;drums;the recorder;the harmonica
""")

LANGUAGES = spaced("""
English French German Spanish Italian Portuguese Dutch Danish Swedish Norwegian Finnish Polish Czech
Greek Turkish Arabic Hebrew Hindi Tamil Chinese Japanese Korean Thai Russian Welsh Irish Swahili
Latin Hungarian Romanian Icelandic Esperanto Basque Catalan
""")

SUBJECTS = entries("""
maths;physics;chemistry;biology;history;law;medicine;music;art;economics;philosophy;geography
computer science;linguistics;psychology;architecture;engineering;literature;astronomy;geology
archaeology;statistics;nursing;theology;journalism;sociology;botany;film;marketing;design
""")

MUSIC = entries("""
jazz;rock;pop;blues;soul;folk;techno;classical music;opera;hip hop;reggae;country;metal;punk;funk
ambient;disco;house;salsa;flamenco;gospel
""")

CATEGORIES = entries("""
colour;color;food;drink;fruit;animal;city;country;number;book;film;movie;song;band;singer;game
sport;season;flower;tree;bird;dish;cheese;dessert;snack;vegetable;ice cream flavour;tea;coffee
restaurant;cafe;park;team;player;author;writer;poet;painter;actor;actress;show;TV show;series
subject;word;letter;day;month;holiday;language;instrument;shop;brand;car;planet;star;river;lake
mountain;beach;museum;toy;hobby;dance;shape;pizza topping;soup;sandwich;spice;sauce;cartoon;hero
superhero;board game;video game;card game;podcast;website;album;artist;composer;opera;music;genre
meal;breakfast;cake;candy;sweet;wine;beer;juice;cocktail;insect;dinosaur;fish;pet;room;teacher
time of day;kind of music;type of food;place;football team;quote;poem;painting;hat;font;tool
""")

NUMBERED = entries("""
lucky number;room number;locker number;phone number;pin;pin code;PIN;code;door code;seat;seat number
flat number;house number;shoe size;student number;zip code;postcode;order number;ticket number
account number;locker code;locker combination;gate code;alarm code;safe code;wifi password;password
wifi code;passcode;user name;username;email;license plate;number plate;bus line;flight number;gate
platform;train number;membership number;bank code;office number;desk number;parking spot;height
weight;team number;jersey number;table number;booking number;reference number;garage code;badge
badge number;extension;secret code;bike lock code;suitcase code;customer number;score;record;bus
""")

EVENTS = entries("""
dentist appointment;doctor's appointment;appointment;meeting;flight;train;exam;test;interview
job interview;party;birthday party;wedding;concert;match;game;lesson;piano lesson;class;yoga class
lunch;dinner;breakfast;date;haircut;trip;holiday;deadline;presentation;talk;conference;show;play
movie night;driving test;birthday;anniversary;delivery;check-up;surgery;vacation;course;workshop
team meeting;call;phone call;video call;race;marathon;exhibition;barbecue;picnic;reunion;rehearsal
vet appointment;gym session;book club;chess club;guitar lesson;swimming lesson;school trip;bus
""")

DAYS = spaced("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = spaced("""
January February March April May June July August September October November December
""")

TITLES = entries("""
Dune;Emma;Hamlet;The Hobbit;Moby Dick;Ulysses;Dracula;Middlemarch;The Silent River;Blue Winter
The Last Island;Night Train;A Quiet Garden;The Glass Key;Red Moon Rising;The Long Road;Stardust
The Clockmaker;Silver Rain;The Paper Boat;Under the Hill;Beyond the Sea;The Iron Gate;Lost Letters
""")

CONSONANTS = spaced(
    "b c d f g h j k l m n p r s t v w z br ch cl cr dr fl fr gl gr kr pl pr sh sk sl sn st th"
)
VOWELS = spaced("a e i o u a e i o u ai ea ee oo ou ia io")
ENDINGS = spaced("n r l s t k m x z th nd rk sh ng ck by ton ville")
