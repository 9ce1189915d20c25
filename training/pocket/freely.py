"""Hand-written conversations in everyday words that the generator does not produce.

Each turn is "what is typed => what the reply must contain"; turns without an arrow are not checked.
"""

from __future__ import annotations

SEEN = """
hi there, I'm Ada and this is my first time here
I've got a dog, he's called Biscuit
and my sister Clara lives in Lisbon
what do you think my dog is called? => Biscuit
in which town does Clara live? => Lisbon

Hey! Quick intro: my name is Ruben, I live in Ghent, and I'm a nurse.
What am I called? => Ruben
And what's my job again? => nurse
where's home for me? => Ghent

my favourite colour is teal
the number of my locker is 4417
do you remember which colour I like? => teal
locker number? => 4417

I'm meeting Tom for dinner on Thursday at 7 pm.
When am I meeting Tom? => Thursday at 7 pm

I have dinner with Ada on Thursday at 7 pm
When is dinner with Ada? => Thursday at 7 pm

please keep in mind that the wifi password is plumtree88
what's the wifi password? => plumtree88

We adopted a kitten last week and named her Pixel.
What did we name the kitten? => Pixel

My mum's birthday is on 14 May
When's my mum's birthday? => 14 May

my car is a red Fiat
what sort of car do I have? => red Fiat

I parked on level 3
where did I park? => level 3

The meeting with Ben got moved to Friday at 10.
When is the meeting with Ben? => Friday at 10

I am allergic to peanuts, just so you know
Is there something I shouldn't eat? => peanuts

My cat is called Momo. My hamster is called Fizz.
name of the hamster please => Fizz
and the cat? => Momo

I work at a bakery called Crumb
Where do I work? => Crumb

my best friend is Oleg
who is my best friend? => Oleg
who is Oleg? => best friend

I live in Lisbon
oh wait, I moved. I live in Porto now
where do I live? => Porto

My dog's name is Rex.
Sorry, I misspoke: my dog's name is Max.
What's my dog's name? => Max

what is my dog's name? => not told

do you know where I live? => not told

My lucky number is 31
What is my favourite number? => not told

My sister is called Mia.
What is my brother's name? => not told

what's 12 plus 9 => 21

can you add 58 and 67 for me? => 125

what do you get when you take 46 from 81? => 35

23-58 => -35

how much is 99 + 99? => 198

7 + 5 = => 12

whats 64 - 28 please => 36

tell me about yourself => pocket

are you a real AI? => pocket

so what are you exactly? => pocket

what can you help me with? => remember

how do i go back to a chat from yesterday? => resume

I'd like to try a different answer from turn 3, how? => branch

how can I see all the branches? => tree

what do the numbers under your answer mean? => prefilled

can I load a bigger model in chatcli? => -m

how do I get out of here? => Ctrl-D

how do I make you shut up in the middle of an answer? => Ctrl-C

why was that reply so quick? => checkpoint

write me a short poem about autumn leaves => cannot

what's the capital of Sweden? => cannot

how do you say good night in German? => cannot

can you fix this python script for me? => cannot

who was the first person on the moon? => cannot

what is 12 times 12? => only add and subtract

will it rain tomorrow in Bristol? => cannot

thanks, that was helpful => welcome

good morning! => Hello

ok bye => Goodbye

I am called Zanthor and I come from Vebrik
where am I from? => Vebrik
what's my name => Zanthor

my flight leaves at 6:45 on Monday and the gate is B12
what gate is it? => B12
when does my flight leave? => 6:45

Please remember three things: my name is Ivo, my cat is called Juno and my lucky number is 27.
What's my lucky number? => 27
What's my name? => Ivo
What's the name of my cat? => Juno

my favorite food is ramen and i hate celery
what food do i hate? => celery
what do i like to eat most? => ramen

I put the spare key under the blue flower pot
where's the spare key? => blue flower pot

The code for the garage door is 8821.
My boss is called Ingrid.
I play the cello.
What instrument do I play? => cello
What's the garage code? => 8821
What's my boss's name? => Ingrid

My name is Lena.
I have two cats, Tiger and Luna.
What are my cats called? => Tiger
"""

KEPT = """
Hello, my name's Bram. I'm 34 and I live in Utrecht with my wife Noor.
how old am I? => 34
what's my wife's name? => Noor
which city is my home? => Utrecht

My parrot is named Captain Squawk
can you tell me my parrot's name? => Captain Squawk

The train leaves at 9:15 from platform 4
what platform does the train leave from? => 4
what time is my train? => 9:15

remember this for later: the safe combination is 27-14-39
What's the combination of the safe? => 27-14-39

My daughter Sophie turns 6 next week
how old will Sophie be? => 6
who is Sophie? => daughter

i love mushroom risotto
what dish do i love? => mushroom risotto

I teach maths at a school in Leeds
What do I teach? => maths

My dentist appointment is next Tuesday at 8:30.
Remind me, when do I have to be at the dentist? => Tuesday at 8:30

I drive a Skoda and my husband drives a Tesla
What does my husband drive? => Tesla
What do I drive? => Skoda

my favourite band is Radiohead
which band do I like? => Radiohead

I was born in Turin but I live in Bern.
Where was I born? => Turin
Where do I live? => Bern

My bike is blue.
What colour is my bike? => blue

my favourite tea is rooibos
actually I prefer oolong now, my favourite tea is oolong
favourite tea? => oolong

what is my favourite film? => not told

Do you know my birthday? => not told

what's eighty minus fifteen? => 65

36 and 47, what's the sum? => 83

Could you please compute 71 - 19? => 52

what exactly does /branch do => branch

is there a way to pick up where I left off yesterday? => resume

how do I switch to a better model? => -m

give me a recipe for banana bread => cannot

explain to me how engines work => cannot

I'm learning to surf in Ericeira
My coach is called Duarte
Lessons start at 8 am
what's my coach called? => Duarte
where am I learning to surf? => Ericeira
"""


def parsed(text: str) -> list[list[tuple[str, str]]]:
    """Conversations of (typed, wanted) turns; wanted is empty where nothing is checked."""
    return [[turn(line) for line in block.splitlines()] for block in text.strip().split("\n\n")]


def turn(line: str) -> tuple[str, str]:
    """What is typed and what the reply must contain."""
    typed, _, wanted = line.partition(" => ")
    return typed, wanted
