"""Kinds of facts about what the user and other people are and do; kinds.py has those about things."""

from __future__ import annotations

from training.pocket.kinds import Kind


def deed(
    values: str, tell: str, ask: str, says: str, topic: str, things: str = "", weight: float = 0.4
) -> Kind:
    """A kind from patterns that are parted by semicolons."""
    parts = tuple(p.strip() for p in tell.split(";")), tuple(p.strip() for p in ask.split(";"))
    return Kind(things, values, *parts, says, topic, weight=weight)


RECALL = "(do you (know|remember|recall)|can you tell me|(tell|remind) me)"

NAME = deed(
    "name",
    "my name is [v];my name's [v];my name is [v];I am [v];I'm [v];call me [v];"
    "(you can|please|just|everyone can) call me [v];this is [v];[v] is my name;people call me [v];"
    "my (friends|parents) call me [v];I go by [v];the name is [v];I am called [v];[v] here;"
    "(hi|hello|hey)(,|!) (I'm|I am|my name is|this is|it's) [v];my first name is [v];"
    "I introduce myself: [v];"
    "everyone knows me as [v];they christened me [v];I answer to [v];my parents named me [v];"
    "I sign as [v];(it's|it is) [v] (speaking|writing)(|.)"
    ";I'm known as [v];my name would be [v];they named me [v];my given name is [v]"
    ";(friends|colleagues) know me as [v];I was named [v];I respond to [v];I was christened [v]"
    ";my name? [v];I introduce myself as [v];you are (talking|speaking|writing) to [v]"
    ";you may call me [v];I prefer to be called [v];most people call me [v];everybody calls me [v]"
    ";I like to be called [v];it's me, [v];I am named [v];on my badge it says [v]"
    ";I'd like you to call me [v];the person typing this is [v]",
    "what is my name?;what's my name?;what is my name?;who am I?;what am I called?;"
    f"{RECALL} (my name|who I am|what my name is|what I am called)?;what was my name(| again)?;"
    "what name did I (tell|give) you?;how am I called?;what do people call me?;my name?;"
    "say my name.;what did I say my name was?;which name do I have?;"
    "what should you call me?;I forgot my name. What is it?;"
    "(how|what) (do|did) I (call|introduce) myself?;by what name do (you|people) know me?;"
    "(did I|have I) (mention|mentioned|tell you|told you) my name?;"
    "who are you (talking|speaking|writing) to?;(say|type|spell) my name(| please).;what do I go by?;"
    "what do you call me?;which name did I (use|give|say)?;address me by my name(| please)."
    ";what am I known as?;what am I named?"
    ";what is my given name?;what was I christened?;what do my friends call me?"
    ";how should you call me?;how may you address me?;can you say who I am?;what do I respond to?"
    ";what does my badge say?;under what name do you know me?;(do|can) you still know my name?"
    ";what do I like to be called?;what name do I have?;what name should you use for me?",
    "your name is [v]",
    "their name",
    weight=4,
)
HOME = deed(
    "place",
    "I live in [v];I live in [v];I'm living in [v];I (just |recently |)moved from [u] to [v];"
    "I used to live in [u](, but | but |, )now I live in [v];I left [u] and (now live in|moved to) [v];"
    "I no longer live in [u], I live in [v];I live in [v] (now|these days|since last year);"
    "my (home|house|flat|apartment) is in [v];home is [v];I (just |recently |)moved to [v];"
    "I am based in [v];I live (near|close to) [v];I have lived in [v] for (years|a while|ages);"
    "I live in the (city|town|village) of [v];my (city|town|home town) is [v];"
    "[v] is where I live;I stay in [v];the city I live in is [v];I reside in [v];"
    "I settled (down |)in [v];I (rent|own) a (flat|house|place|room) in [v];my place is in [v];"
    "you (can |)find me in [v];I make my home in [v];I (write|greet you) from [v], where I live;"
    "I call [v] home;my address is in [v]"
    ";I have my home in [v];I have a home in [v];I've been living in [v] for (years|a year|some time)"
    ";my family and I live in [v];I am a resident of [v];I am (living|staying) in [v] at the moment"
    ";my place of residence is [v];I am at home in [v];I put down roots in [v]"
    ";I found a (flat|house|room) in [v];my street is in [v];my house stands in [v];I dwell in [v]"
    ";I've made [v] my home;I (relocated|emigrated) to [v];[v] is my home(| now)"
    ";[v] has been my home for (years|a while);I ended up in [v];I have a (flat|house|cottage) in [v]"
    ";my apartment is in the middle of [v];my front door is in [v];I am housed in [v]",
    "where do I live?;where do I live?;where do I live(| again|, please)?;"
    "(which|what) (city|town|place|country) do I live in?;in (which|what) (city|town) do I live?;"
    f"where is my (home|house|flat)?;where am I (living|based)?;{RECALL} where I live?;"
    f"{RECALL} (which|what) (city|town) I live in?;where did I say I live(|d)?;"
    "what (city|town) am I (living|based) in?;what is my (city|town|home town)?;where's my home?;"
    "do you know my (city|town|home town)?;"
    "in which place did I settle?;where is my place?;what place do I call home?;"
    "where have I settled(| down)?;where do I (rent|own|have) (my|a) (flat|house|place)?;"
    "where did I (settle|move)(| to)?;where (do|can) you find me?;"
    "(what|which) (city|town|place) is my home?;where is home for me?"
    ";where am I at home?;where do I have my home?;where do I reside?;where do I dwell?"
    ";what is my place of residence?;(which|what) (city|town|place) am I a resident of?"
    ";where did I put down roots?;where have I made my home?;where does my house stand?"
    ";where did I relocate to?;where did I end up living?"
    ";in (what|which) (part|corner) of the world do I live?;where is my apartment?"
    ";where should a letter to me go?;what place am I based in?;whereabouts do I live?"
    ";whereabouts am I based?;where have I been living?;my place of residence?;my home town?"
    ";where is my front door?;what (city|town|place) do I call my home?",
    "you live in [v]",
    "where they live",
    weight=3,
)
SELF: tuple[Kind, ...] = (
    NAME,
    HOME,
    deed(
        "place",
        "I'm from [v];I am from [v];I come from [v];I am originally from [v];I hail from [v];"
        "my roots are in [v];I (arrived|came) here from [v];[v] is where I come from;I'm a native of [v];"
        "I (left|had to leave) [v] (as a child|years ago|to come here)"
        ";my home country is [v];I originate from [v];my family comes from [v];my origins are in [v]"
        ";I have my roots in [v];(at heart|by birth) I am from [v];I moved here from [v]"
        ";the place I come from is [v];my people are from [v];I am, as you may hear, from [v]",
        f"where am I from?;where do I come from?;{RECALL} where I (am|come) from?;"
        "(what|which) (city|country|place|town) am I from?;where am I from originally?;"
        "where are my roots?;(what|which) (place|city|town|country) do I come from?;"
        "what is my place of origin?;where did I (arrive|come) (here |)from?"
        ";whereabouts am I from?;what is my home country?;where do I originate from?"
        ";where does my family come from?;where are my origins?;where did I move here from?"
        ";where do I hail from?;what (place|country) are my roots in?;where have I come from?;my origins?"
        ";of what place am I a native?;what place are my people from?",
        "you are from [v]",
        "where they are from",
        weight=1.2,
    ),
    deed(
        "place",
        "I was born in [v];my birthplace is [v];my place of birth is [v];I was born and raised in [v];"
        "I came into the world in [v];my life began in [v];my mother had me in [v];"
        "(it says|there is) [v] as place of birth in my passport"
        ";my cradle stood in [v];I first saw the light of day in [v]"
        ";my birth was in [v];my parents had me in [v]"
        ";[v] is my birthplace;[v] is where I was born;my birth certificate says [v]"
        ";I drew my first breath in [v];I was a baby in [v], born and all",
        f"where was I born?;{RECALL} where I was born?;what is my (birthplace|place of birth)?;"
        "(in which|in what) (city|place|town) was I born?;which (city|town) was I born in?;"
        "where did I come into the world?;(which|what) place of birth do I have?;where did my life begin?"
        ";whereabouts was I born?;what does my birth certificate say as place?"
        ";where did I draw my first breath?;where did my cradle stand?"
        ";where did I first see the light of day?;where was my birth?;where did my parents have me?"
        ";what is my birthplace?;my place of birth?;my birthplace?",
        "you were born in [v]",
        "where they were born",
        weight=0.8,
    ),
    deed(
        "place",
        "I grew up in [v];I spent my childhood in [v];"
        "I was raised in [v];my childhood was in [v];I went to school in [v]"
        ";I spent my early years in [v];my youth was in [v];I was brought up in [v]"
        ";I passed my childhood in [v];as a child I lived in [v];[v] is where I grew up"
        ";[v] is where I was raised;I did my growing up in [v];my childhood home was in [v]"
        ";I was a child in [v];my school days were in [v];I learned to walk in [v]",
        f"where did I grow up?;{RECALL} where I grew up?;which city did I grow up in?;"
        "where was I raised?;where did I spend my childhood?;where was I as a child?"
        ";where was I brought up?;where did I live as a child?;where was my childhood?"
        ";in (which|what) (city|town|place) did I grow up?;where was my childhood home?"
        ";where did I spend my (youth|early years)?;where did I do my growing up?"
        ";whereabouts did I grow up?;where did I pass my childhood?;which place was I raised in?"
        ";where were my school days?;where did I learn to walk?",
        "you grew up in [v]",
        "where they grew up",
    ),
    deed(
        "company",
        "I work (at|for) [v];I work (at|for) [v];my employer is [v];I am employed (at|by) [v];"
        "I (just |)started (working |)(at|for) [v];my company is [v];the company I work for is [v];"
        "I have a (job|position|contract) (at|with) [v];I'm on the staff of [v];[v] (pays|employs) me;"
        "I (got hired|was hired) by [v];I earn my money at [v]"
        ";I am on the payroll of [v];I have a post at [v]"
        ";I draw my (wages|salary|pay) from [v];I joined [v] (last year|in spring|)"
        ";I signed (on|up) with [v];I have my (job|desk|office) at [v];my workplace is [v];my firm is [v]"
        ";my wages come from [v];my salary comes from [v];I am an employee of [v]"
        ";I am in the service of [v];I do shifts at [v];I clock in at [v];[v] is my employer"
        ";[v] is where I work;[v] signs my pay cheques;my place of work is [v]"
        ";I found (work|a job) (at|with) [v];I took a job (at|with) [v];I go to work at [v]"
        ";my contract is with [v];I've worked (at|for) [v] (for years|since spring)"
        ";I am working (at|for) [v];I belong to the team at [v];my paycheck comes from [v]"
        ";I spend my working days at [v];I make my money at [v];I do my work at [v]"
        ";I am one of the people at [v], workwise;I am kept busy by a job at [v]",
        f"where do I work?;who do I work for?;{RECALL} (where|who) I work(| for)?;"
        "which (company|place) do I work (for|at)?;what is my (company|employer)?;"
        "what company do I work for?;who is my employer?;"
        "who (pays|employs|hired) me?;where do I (earn my money|have my job)?;"
        "at (which|what) (company|place) am I employed?;(which|what) company am I with?"
        ";who signs my pay cheques?;which firm am I with?;where is my job?;where is my workplace?"
        ";what is my place of work?;who do I have a contract with?;where do I clock in?"
        ";where do I do my shifts?;on whose payroll am I?"
        ";which (firm|outfit) (do I work for|am I with|employs me)?"
        ";(what|which) (firm|company) is my job (at|with)?;where do I go to work?;where am I employed?"
        ";whose employee am I?;where does my (salary|pay|paycheck) come from?;what is my firm called?"
        ";who do I draw my pay from?;where did I find work?;where do I spend my working days?"
        ";where am I working?;my employer?;my workplace?;who gives me work?"
        ";what firm have I got a job with?;where is my desk?",
        "you work at [v]",
        "where they work",
        weight=1.6,
    ),
    deed(
        "job",
        "I work as a [v];I'm a [v];I am a [v];my job is [v];my profession is [v];"
        "I am a [v] by profession;I earn my living as a [v];by trade I am a [v];"
        "I (trained|qualified) as a [v];I make a living as a [v];"
        "I've been a [v] (for years|since I left school);I became a [v];I got a job as a [v];"
        "(for a living|for work) I am a [v];being a [v] is my job"
        ";my occupation is [v];I am employed as a [v];my trade is that of a [v];I have a job as a [v]"
        ";I do the work of a [v];I work for a living as a [v];I am working as a [v]"
        ";I've been working as a [v] for (years|a while);my line of work is [v];my position is [v]"
        ";my calling is to be a [v];on weekdays I am a [v];I'm [v] by trade;I got hired as a [v]"
        ";I am what they call a [v];I started out as a [v] and still am one"
        ";as a [v] I (am always busy|have long days|see a lot);my career is that of a [v]"
        ";I chose to be a [v];I ended up as a [v];I hold a post as a [v];my role at work is [v]"
        ";I get paid as a [v];I spend my working days as a [v];I call myself a [v]",
        "what is my (job|profession|occupation|work)?;what do I do (for a living|for work)?;"
        f"what do I work as?;what's my job?;{RECALL} (my job|what I do|what my job is)?;"
        "which job do I have?;what do I do?;what am I by profession?;"
        "what do I earn my (money|living) (as|with)?;how do I (make|earn) (a living|my living|my money)?;"
        "(what|which) (line of work|trade|profession) am I in?;what is my line of work?;"
        "what did I (train|qualify) as?;what kind of (work|job) do I do?"
        ";what is my occupation?;what is my trade?;what is my calling?;what is my position?"
        ";what am I employed as?;what did I get hired as?;what is my career?"
        ";how do I earn my (bread|keep|crust)?;as what do I work?;what work do I do?"
        ";what am I working as?;what do I do all day (at work|for money)?"
        ";what job (do I have|have I got|am I in)?;my (profession|occupation|trade)?"
        ";what is it that I do(| for a living)?;what sort of work am I in?;what did I become?"
        ";what is my role at work?;what am I on weekdays?;what kind of job is mine?"
        ";what do I get paid (as|for)?;what am I by trade?;what do I work in?;what job did I choose?",
        "your job is [v]",
        "their job",
        weight=2.2,
    ),
    deed(
        "age",
        "I am [v] years old;I'm [v] years old;I am [v];my age is [v];I (just |)turned [v];I'm [v];"
        "I am [v] years of age;I have reached the age of [v];"
        "I turned [v] (last week|this year|in spring);I've been on this earth for [v] years"
        ";I am aged [v];I'm [v] now;I have lived [v] years;[v] is my age;I recently turned [v]"
        ";I count [v] years;I am at the age of [v];there were [v] candles on my cake"
        ";my last birthday made me [v];I became [v];my cake had [v] candles;in years I am [v]"
        ";I was [v] at my last birthday;I've been [v] since my birthday",
        f"how old am I?;what is my age?;what's my age?;{RECALL} (my age|how old I am)?;"
        "how many years old am I?;how old did I say I (am|was)?;"
        "what age (am I|have I reached)?;(which|what) birthday did I have last?;"
        "how many years have I (lived|been alive)?"
        ";my age?;what age am I?;at what age am I?;how many (years|summers|winters) do I count?"
        ";what number of years have I lived?"
        ";how old have I (become|got)?;how old did I turn?;what age did I (turn|reach)?"
        ";how far on in years am I?;what is my age in years?;how old would I be(| now)?",
        "you are [v] years old",
        "how old they are",
        weight=2.2,
    ),
    deed(
        "foods",
        "I am allergic to [v];I'm allergic to [v];I have a [v] allergy;I have an allergy to [v];"
        "[v] (make|makes) me ill;I can't eat [v], I am allergic;my allergy is [v];"
        "I react to [v];I must not eat [v];I get a rash from [v];my body cannot take [v];"
        "[v] (is|are) poison for me"
        ";[v] (brings|bring) me out in spots;I have to stay away from [v];I cannot tolerate [v]"
        ";I swell up from [v];I am sensitive to [v];I am intolerant to [v];I come out in a rash from [v]"
        ";I sneeze from [v];my doctor forbids me [v];my doctor told me to avoid [v]"
        ";I can't have [v] because of an allergy;doctors say I am allergic to [v];I get sick from [v]"
        ";I'm hypersensitive to [v];my skin reacts to [v];my allergy is to [v]"
        ";I suffer from a [v] allergy;I end up in hospital from [v]",
        f"what am I allergic to?;{RECALL} (what I am allergic to|my allergy|what my allergy is)?;"
        "what is my allergy?;(do|did) I (have|mention) (any|an) allerg(y|ies)?;"
        "which allergy do I have?;what must I not eat?;"
        "(is there|do you know) (something|anything|a food) I (can't|cannot|should not|"
        "shouldn't) eat?;what (can't|shouldn't) I eat?;what's my allergy?;"
        "am I allergic to (something|anything)?;"
        "what do I react to?;what gives me a rash?;what must I (avoid|keep away from)?;"
        "what (food|thing) is bad for me?"
        ";what am I sensitive to?;what am I intolerant to?;what makes me (ill|sick)?"
        ";what makes me sneeze?;what can't my body take?;what can't I tolerate?"
        ";what do I have to stay away from?;what did my doctor forbid me?;what brings me out in spots?"
        ";what does my skin react to?;from what do I (swell up|get sick)?;what allergy do I suffer from?"
        ";my allergy?;(which|what) food am I allergic to?;what is poison for me?;to what am I allergic?"
        ";what allergies do I have?",
        "you are allergic to [v]",
        "what they are allergic to",
        weight=1.2,
    ),
    deed(
        "place",
        "I am going to [v] (on holiday|on vacation|for my holiday|next week|next month|"
        "this summer);"
        "I'm (flying|travelling|traveling|going) to [v] (soon|on holiday|this summer|next month|);"
        "my (holiday|vacation|next trip) (is|will be) in [v];I (booked|planned) a trip to [v];"
        "we are going on (holiday|vacation) to [v];I will (visit|travel to|fly to) [v];"
        "I (have|bought|got) (a ticket|tickets) to [v];my next (trip|journey) takes me to [v];"
        "I am off to [v] (soon|tomorrow|in summer);"
        "I (leave|set off|depart) for [v] (soon|next week|tomorrow);"
        "I'm spending my (holiday|vacation) in [v]"
        ";I am headed (for|to) [v];my plane goes to [v]"
        ";I take the (train|plane|bus) to [v] (next week|tomorrow|soon);I am about to travel to [v]"
        ";I have a trip to [v] coming up;my holiday will be spent in [v];I made up my mind to go to [v]"
        ";next stop for me is [v];my bags are packed for [v];I booked a (flight|hotel) (to|in) [v]"
        ";my destination is [v];I am leaving for [v];(this|next) (summer|month|week) I go to [v]"
        ";I plan to go to [v];soon I will be in [v];I am on my way to [v];[v] is where I am going"
        ";my summer will be in [v];I will spend my (holiday|leave|vacation) in [v]"
        ";I am visiting [v] (soon|next week);I have a holiday in [v] ahead",
        "where am I (going|travelling|flying)(| to| on holiday| on vacation| next)?;"
        f"where (will I go|am I going|do I go) on (holiday|vacation)?;{RECALL} where I am going?;"
        "where is my (holiday|vacation|trip)?;which (city|country|place) am I (visiting|going to)?;"
        "what is my (holiday|travel|vacation) destination?;where am I off to?;"
        "where does my (next |)(trip|journey) take me?;where do I have (a ticket|tickets) to?;"
        "where am I spending my (holiday|vacation)?;where do I (leave|set off|depart) for?"
        ";where am I headed?;what is my destination?;where does my plane go?;where is my next trip(| to)?"
        ";where am I flying?;where will I spend my (holiday|leave|vacation)?;where do I travel?"
        ";where am I about to (go|travel)?;where did I book (a flight|a trip|a hotel)(| to)?"
        ";to (which|what) (place|city|country) am I going?;where are my bags packed for?"
        ";where have I planned to go?;where will I be going?;where am I on my way to?;my destination?"
        ";where is the next stop for me?;where will I be this summer?;where did I make up my mind to go?",
        "you are going to [v]",
        "where they are going",
        weight=1.2,
    ),
    deed(
        "car",
        "I drive a [v];my car is a [v];I have a [v] as a car;my car is a [v];I own a [v];I bought a [v] car;"
        "I get around in a [v];there is a [v] in my garage;I travel to work in a [v];my vehicle is a [v]"
        ";I get behind the wheel of a [v];I (commute|go to work) in a [v];my wheels are a [v]"
        ";I am the owner of a [v];I run a [v];my family car is a [v];I park a [v] in front of the house"
        ";I got myself a [v];I've driven a [v] for years;the car I drive is a [v]"
        ";I sit behind the wheel of a [v];I traded my old car for a [v];I recently bought a [v]"
        ";my ride is a [v];my motor is a [v];on four wheels I trust a [v];I get to work by [v]",
        "what (car|) do I drive?;which car do I (drive|have|own)?;"
        f"{RECALL} (what|which) car I (drive|have)?;"
        "what (kind|sort|type|make) of car do I (have|drive)?;what is my car?;what's my car?;"
        "what do I drive?;"
        "what is in my garage?;(what|which) vehicle do I (own|have|drive)?;"
        "(what|which) car do I get around in?"
        ";what is my ride?;what wheels have I got?;what do I sit behind the wheel of?"
        ";(what|which) car did I buy?;(what|which) car stands in front of my house?;what car is mine?"
        ";what is the make of my car?;(what|which) model do I drive?;what do I commute in?"
        ";(what|which) car have I got?;what car am I driving?;my car?;what do I get around in?"
        ";what vehicle is mine?",
        "you drive a [v]",
        "what they drive",
        weight=0.8,
    ),
    deed(
        "instrument",
        "I play [v];I can play [v];my instrument is [v];I have played [v] (for years|since school);"
        "I practise [v] (every day|every evening|a lot);I'm quite good at [v]"
        ";I am learning to play [v];I play a lot of [v];I love playing [v];I took up [v] as a child"
        ";I have been playing [v] for years;I play [v] (every week|at weekends|in my free time)"
        ";[v] is what I play;I got into playing [v];I play [v] quite well;I play [v] with friends"
        ";I have lessons, I play [v];I picked up [v] again",
        "what (instrument |sport |)do I play?;which (instrument|sport) do I play?;"
        f"{RECALL} what I play?;"
        "what can I play?;"
        "what do I practise?;what am I good at?"
        ";what do I like to play?;what have I played for years?"
        ";what am I learning to play?;what is it that I play?"
        ";what do I play (well|with friends|every week)?;what did I say I play?;what have I been playing?"
        ";what did I get into playing?",
        "you play [v]",
        "what they play",
        weight=0.8,
    ),
    deed(
        "activity",
        "my hobby is [v];I do [v] in my free time;I enjoy [v] in my (free|spare) time;"
        "in my free time I (do|like) [v];my main hobby is [v];"
        "I spend my (weekends|evenings|free time) on [v];I am into [v];"
        "[v] (is my passion|is what I do for fun);when I'm off work I do [v];I relax with [v]"
        ";my favourite pastime is [v];my pastime is [v];I fill my free time with [v]"
        ";I pass the time with [v];I unwind with [v];I devote my (weekends|evenings) to [v]"
        ";in the evenings I do [v];on weekends I do [v];I took up [v];I live for [v];I spend hours on [v]"
        ";I keep busy with [v];[v] is my hobby;[v] keeps me busy;[v] is how I spend my free time"
        ";when I have time I do [v];I go in for [v];I have a passion for [v];after work I do [v]"
        ";my weekends go on [v];I do a lot of [v];I get my mind off things with [v]",
        "what is my hobby?;what do I do in my (free|spare) time?;what's my hobby?;"
        f"{RECALL} my hobby?;which hobby do I have?;do I have a hobby?;"
        "what do I do for fun?;how do I (relax|spend my free time|spend my weekends)?;"
        "what is my passion?;what am I into?"
        ";what is my pastime?;what do I do on weekends?;what do I do after work?;how do I unwind?"
        ";how do I pass the time?;how do I fill my free time?;what keeps me busy?"
        ";what do I spend hours on?;what do I have a passion for?"
        ";what do I devote my (weekends|evenings) to?;what do I do when I have time?;what do I go in for?"
        ";what interests do I have?;what am I up to in my (free|spare) time?;my hobby?"
        ";what do I spend my (evenings|spare time) on?;what do I live for?;what hobby have I got?"
        ";what gets my mind off things?",
        "your hobby is [v]",
        "their hobby",
        weight=0.8,
    ),
    deed(
        "language",
        "I speak [v];I can speak [v];my mother tongue is [v];my native language is [v];"
        "I grew up with [v];we talk [v] at home;I am fluent in [v]"
        ";my first language is [v];I was raised speaking [v];I have a good command of [v]"
        ";my everyday language is [v];the language I speak is [v];I talk [v] with my parents"
        ";I express myself in [v];at home I speak [v];I am a native speaker of [v]"
        ";I learned [v] as a child;I think and dream in [v];my tongue is [v];my family speaks [v]",
        f"what language do I speak?;which language do I speak?;{RECALL} which language I speak?;"
        "what is my (mother tongue|native language)?;what do I speak?;"
        "what am I fluent in?;what do I talk at home?;in (which|what) language am I at home?"
        ";what is my first language?;(what|which) language do I (talk|use) at home?"
        ";(what|which) language did I learn as a child?;what am I a native speaker of?"
        ";what do I speak at home?;(what|which) language do I have a command of?"
        ";which language was I raised in?;what is my everyday language?;what tongue do I speak?"
        ";my mother tongue?;what language do I think in?;what does my family speak?",
        "you speak [v]",
        "which language they speak",
    ),
    deed(
        "subject",
        "I study [v];I am studying [v];I'm a student of [v];my subject is [v];I am majoring in [v];"
        "I'm doing a degree in [v];I go to lectures in [v];at university I do [v]"
        ";I am enrolled in [v];my degree is in [v];my course is [v];my field of study is [v]"
        ";I chose to study [v];I took up studies in [v];I am getting a degree in [v]"
        ";I am taking a course in [v];[v] is my subject;I sit in lectures on [v]"
        ";I am working towards a degree in [v];my major is [v];I want to graduate in [v]"
        ";I am an undergraduate in [v];I go to university for [v]",
        f"what do I study?;what am I studying?;which subject do I study?;{RECALL} what I study?;"
        "what is my (subject|major)?;"
        "what am I doing a degree in?;what do I do at university?;what are my lectures in?"
        ";what is my degree in?;what is my field of study?;what am I enrolled in?;what is my course?"
        ";what am I majoring in?;what did I choose to study?;(what|which) lectures do I sit in?"
        ";what am I taking a course in?;what am I getting a degree in?;what is it I study?;my subject?"
        ";my major?;what do I want to graduate in?;(what|which) subject am I (taking|doing)?"
        ";what am I at university for?",
        "you study [v]",
        "what they study",
    ),
    deed(
        "language",
        "I am learning [v];I'm learning [v];I am trying to learn [v];I take lessons in [v];"
        "I am taking up [v];I practise my [v] every day;I go to a [v] class"
        ";I have started to learn [v];I began learning [v];I try to pick up some [v]"
        ";I have a tutor for [v];I do [v] exercises every night;I want to become fluent in [v]"
        ";my evening class is in [v];I am teaching myself [v];I learn [v] with an app"
        ";I have [v] lessons (on Mondays|every week);I am getting better at [v]"
        ";the language I am learning is [v];I am a beginner in [v]",
        f"what am I learning?;which language am I learning?;{RECALL} what I am learning?"
        ";(what|which) language do I learn?;what am I taking lessons in?"
        ";what language do I have a tutor for?;what am I trying to learn?;what have I started to learn?"
        ";what am I teaching myself?;what is my evening class in?;(what|which) language do I practise?"
        ";what do I want to become fluent in?;what am I getting better at?"
        ";what language class do I go to?;(what|which) language am I (studying|taking up|picking up)?"
        ";what language am I a beginner in?",
        "you are learning [v]",
        "what they are learning",
    ),
    deed(
        "title",
        "I am reading [v];I'm reading [v];the book I am reading is [v];right now I am reading [v];"
        "I am halfway through [v];I (started|began) reading [v];on my bedside table lies [v];"
        "my current book is [v]"
        ";I am deep in [v];I have my nose in [v];my bedtime reading is [v]"
        ";I picked up [v] from the library;I can't put down [v];I've got as far as the middle of [v]"
        ";I am on chapter three of [v];the novel I have on the go is [v];I am reading a book called [v]"
        ";I borrowed [v] to read;I read [v] (before sleep|on the train);I'm working my way through [v]"
        ";[v] is the book I am reading;I turn the pages of [v]",
        f"what am I reading?;(which|what) book am I reading?;{RECALL} what I am reading?"
        ";what is my current book?;what have I got my nose in?;what book is on my bedside table?"
        ";(what|which) (book|novel) am I deep in?;what do I read (before sleep|on the train)?"
        ";what am I halfway through?;what is my bedtime reading?;(what|which) book can't I put down?"
        ";what did I start reading?;what book have I got on the go?"
        ";what am I working my way through?;what am I reading at the moment?"
        ";what is the title of (my book|the book I am reading)?",
        "you are reading [v]",
        "what they are reading",
    ),
    deed(
        "title",
        "I am watching [v];I'm watching [v];I watched [v] (yesterday|last night);"
        "I am hooked on [v];(at night|in the evening) I watch [v]"
        ";I binge [v];I am following [v];I just watched [v];the show I am watching is [v]"
        ";the series I follow is [v];I am bingeing [v];I stream [v] (every night|at the moment)"
        ";[v] is the show I watch;I can't stop watching [v];I saw [v] (last night|yesterday)"
        ";I am glued to [v];my evening show is [v]",
        "what am I watching?;(which|what) (film|show|movie) (am|was) I watching?;"
        f"{RECALL} what I am watching?"
        ";(what|which) (show|series|film) do I (watch|follow|stream)?;what did I watch(| last night)?"
        ";what am I hooked on?;what am I bingeing?;what am I glued to?;what do I watch at night?"
        ";what can't I stop watching?;what series am I (following|into)?;what did I say I am watching?"
        ";what is the show I watch?;what am I following?",
        "you are watching [v]",
        "what they are watching",
    ),
    deed(
        "foods",
        "I like [v];I really like [v];I love [v];I am fond of [v];I'm a big fan of [v];"
        "I'm crazy about [v];I can't get enough of [v];I have a weakness for [v];"
        "[v] (is|are) great, I could eat it every day;I'm keen on [v]"
        ";I adore [v];I enjoy [v];I'm mad about [v];I have a soft spot for [v];I could live on [v]"
        ";I would do anything for [v];[v] (is|are) my thing;[v] (makes|make) me happy"
        ";I have a taste for [v];I'm partial to [v];nothing makes me as happy as [v]"
        ";I always have room for [v];my heart beats for [v];I appreciate [v];I go crazy for [v]"
        ";I'm a lover of [v];I never say no to [v]",
        "what do I (like|love)?;(what|which) (food|dish|thing) do I (like|love)?;"
        f"{RECALL} what I (like|love)?;what did I say I (like|love)(|d)?;"
        "what am I (fond|a fan) of?;"
        "what (am I|was I) (crazy|mad) about?;what do I have a weakness for?;what can't I get enough of?;"
        "what am I keen on?"
        ";what do I adore?;what do I enjoy?;what makes me happy?;what do I have a soft spot for?"
        ";what could I live on?;what would I do anything for?;what am I partial to?"
        ";what do I have a taste for?;what do I never say no to?;what is my thing?;what am I a lover of?"
        ";what do I always have room for?;what do I go crazy for?"
        ";(what|which) food am I (fond of|keen on)?;what wins me over?;what am I mad about?"
        ";what do I appreciate?",
        "you like [v]",
        "what they like",
        weight=1,
    ),
    deed(
        "foods",
        "I hate [v];I don't like [v];I dislike [v];I can't stand [v];I do not like [v];"
        "I can't bear [v];I am no fan of [v];I would never touch [v];[v] (is|are) disgusting to me;"
        "I avoid [v]"
        ";I loathe [v];I detest [v];I can do without [v];I turn up my nose at [v];I have no time for [v]"
        ";I have an aversion to [v];I find [v] (disgusting|awful);I shudder at [v];I would not eat [v]"
        ";I refuse to eat [v];I never eat [v];I don't care for [v];I'm not fond of [v]"
        ";I'm not a fan of [v];I push [v] to the edge of the plate;[v] (puts|put) me off"
        ";I can't abide [v];I leave [v] on the plate",
        "what do I (hate|dislike)?;"
        "(what|which) (food|dish|thing) do I (hate|dislike|not like)?;"
        f"{RECALL} what I (hate|dislike|don't like)?;"
        "what (do|did) I (say I |)(not like|hate)?;what don't I like?;what can't I stand?;"
        "what can't I bear?;what would I never (touch|eat)?;what am I no fan of?;what do I avoid?;"
        "what disgusts me?"
        ";what do I loathe?;what do I detest?;what do I refuse to eat?;what do I never eat?"
        ";what am I not fond of?;what can't I abide?;what do I have an aversion to?"
        ";what can I do without?;what don't I care for?;what do I find (disgusting|awful)?"
        ";what puts me off?;what do I turn up my nose at?;(what|which) food can't I stand?"
        ";what do I not like?;what am I not a fan of?;what would I not eat?;what makes me shudder?"
        ";what do I leave on the plate?",
        "you do not like [v]",
        "what they do not like",
        weight=1,
    ),
    deed(
        "drink",
        "I (always |usually |)drink [v] (in the morning|for breakfast|every day|);I take [v];"
        "my drink is [v];I start the day with [v];it's always [v] for me;I order [v] (every time|everywhere)"
        ";I begin my day with [v];my usual drink is [v];I never start the day without [v]"
        ";I have [v] with breakfast;in the morning I have [v];I pour myself [v];my drink of choice is [v]"
        ";[v] is what I drink;I sip [v] all day;a day without [v] is no day for me;in my cup is [v]",
        "what do I (usually |always |)drink?;what do I drink (in the morning|every day)?;"
        f"{RECALL} what I drink?"
        ";what do I (have|take|order) to drink?;what do I start the day with?;what is my (usual |)drink?"
        ";what is my drink of choice?;what do I sip(| all day)?;what drink do I order?"
        ";what do I pour myself?;which drink do I (have|take|order)?;what do I begin my day with?"
        ";what drink do I never miss?;what's in my cup?;what could I not do without in the morning?",
        "you drink [v]",
        "what they drink",
    ),
    deed(
        "food",
        "I (had|ate|have) [v] for (breakfast|lunch|dinner|supper);I ate [v];today I ate [v];"
        "there was [v] (for lunch|for dinner|today);I (cooked|made) myself [v];I just finished [v]"
        ";my lunch was [v];for lunch I had [v];I've just had [v];I've eaten [v];I treated myself to [v]"
        ";I grabbed [v] on the way;I tucked into [v];my meal today was [v];on my plate was [v]"
        ";I dined on [v];I filled up on [v]",
        f"what did I eat(| today)?;what food did I (eat|have)?;{RECALL} what I ate?;what have I eaten?"
        ";what did I have to eat?;what was on my plate?;what was my meal?"
        ";what did I (tuck into|dine on|fill up on)?;what did I treat myself to?;what have I had to eat?"
        ";what did I cook?;what did I (grab|finish)?;which food did I eat?;what did my meal consist of?"
        ";what have I eaten today?",
        "you ate [v]",
        "what they ate",
    ),
    deed(
        "foods",
        "I need to buy [v];I have to buy [v];I must buy [v];I want to buy [v];I should get [v];"
        "I'm out of [v];I have to pick up [v];I still need [v];[v] (is|are) on my shopping list"
        ";I ran out of [v];I am missing [v];I have run out of [v];I have to get [v];I forgot to buy [v]"
        ";I should stock up on [v];I need to get hold of [v];I still have to fetch [v]"
        ";I am going shopping for [v];I lack [v];my shopping list says [v];I used up the last of [v]"
        ";I must not forget to buy [v];I am to bring [v] from the shop",
        "what do I (need|have|want) to buy?;what should I buy?;"
        f"{RECALL} what I (need|have|want) to buy?;"
        "what must I buy?"
        ";what am I out of?;what did I run out of?;what am I (missing|short of)?"
        ";what is on my shopping list?;what do I (need|have) to (get|fetch|pick up)?"
        ";what must I (get|fetch|pick up)?;what should I (get|stock up on)?"
        ";what does my shopping list say?;what do I still need?;what am I going shopping for?"
        ";what do I lack?;what am I to bring from the shop?",
        "you need to buy [v]",
        "what they need to buy",
        weight=0.7,
    ),
    deed(
        "thing",
        "I collect [v]s;I have a collection of [v]s;I am collecting [v]s;"
        "my shelves are full of [v]s;I hunt for [v]s at flea markets"
        ";[v]s are what I collect;I have hundreds of [v]s at home;I am a collector of [v]s;I gather [v]s"
        ";my collection is of [v]s;I buy old [v]s wherever I go;I have been collecting [v]s for years"
        ";my attic is full of [v]s;I swap [v]s with others",
        f"what do I collect?;what is in my collection?;{RECALL} what I collect?"
        ";what am I collecting?;what am I a collector of?;what is my collection(| of| made of)?"
        ";what are my shelves full of?;what do I hunt for?;what do I gather?;what do I have hundreds of?"
        ";what have I been collecting?;what fills my shelves?;of what do I have a collection?",
        "you collect [v]s",
        "what they collect",
    ),
    deed(
        "title",
        "I support [v];my team is [v];I am a fan of the team [v];"
        "I cheer for [v];I root for [v];my club is [v];I have a season ticket for [v]"
        ";I am a supporter of [v];my heart belongs to [v];I go to every match of [v];I back [v]"
        ";I wear the colours of [v];my favourite club is [v];[v] is my team"
        ";I've been a [v] fan since childhood;I never miss a game of [v];I sing for [v] in the stadium",
        f"(which|what) team do I support?;who do I support?;what is my team?;{RECALL} my team?"
        ";what club do I support?;(what|which) (team|club) do I (root|cheer) for?"
        ";who do I (root|cheer) for?;what is my club?;whose supporter am I?"
        ";(what|which) (team|club) am I a fan of?;whose matches do I go to?"
        ";(what|which) team has my heart?;who do I back?;(what|which) club do I have a season ticket for?"
        ";whose colours do I wear?;my team?;whose games do I never miss?",
        "you support [v]",
        "which team they support",
    ),
    deed(
        "name",
        "I am married to [v];I'm married to [v];I married [v] (last year|years ago|);"
        "my (partner|spouse) is [v];I am with [v];I share my life with [v]"
        ";[v] is my (better half|other half|spouse);I am the partner of [v];I tied the knot with [v]"
        ";I said yes to [v];I wed [v];I got married to [v];I have been with [v] for years"
        ";my better half is [v];[v] married me;I exchanged rings with [v];I found my partner in [v]"
        ";I am the spouse of [v];[v] put a ring on my finger;my other half is called [v]",
        f"who am I married to?;who did I marry?;{RECALL} who I am married to?"
        ";who is my (spouse|partner|better half|other half)?;who did I tie the knot with?"
        ";to whom am I married?;who did I say yes to?;who do I share my life with?;who am I with?"
        ";whose spouse am I?;who did I wed?;who did I exchange rings with?;who put a ring on my finger?"
        ";what is my (spouse|partner) called?;who have I been with for years?;my spouse?;who married me?",
        "you are married to [v]",
        "who they are married to",
    ),
    deed(
        "clock",
        "I (get|wake) up at [v];I (always|usually) (get|wake) up at [v];"
        "my alarm (goes|rings) at [v];I (rise|am up|start my day) at [v];I set my alarm for [v]"
        ";I am out of bed at [v];I wake at [v];I open my eyes at [v];I leave my bed at [v]"
        ";I jump out of bed at [v];I crawl out of bed at [v];my night ends at [v];my day begins at [v]"
        ";the alarm wakes me at [v];at [v] I am awake;at [v] I get up;I have to be up at [v]"
        ";my day starts at [v];the alarm gets me up at [v];my mornings begin at [v]"
        ";I am on my feet at [v];I sleep until [v]",
        "when do I (get|wake) up?;(at what|what) time do I (get|wake) up?;"
        "when does my alarm (go|ring)?;when do I (rise|start my day)?;(at what|what) time is my alarm?"
        ";(when|at what time|what time) do I wake?;when am I (up|awake|out of bed)?"
        ";when does my (day|morning) (begin|start)?;when does my night end?"
        ";when do I (leave|jump out of|crawl out of) (my |)bed?;when do I have to be up?"
        ";when does the alarm wake me?;what is my alarm set for?;(when|what time) do I open my eyes?"
        ";what time does my day start?;what time am I (up|awake)?;from what time am I up?"
        ";when am I on my feet?;until when do I sleep?;what time gets me out of bed?",
        "you get up at [v]",
        "when they get up",
    ),
    deed(
        "digits",
        "I have [v] (children|kids);there are [v] (children|kids) in my family"
        ";I've got [v] (kids|children);I am raising [v] (children|kids);I brought up [v] (children|kids)"
        ";I am the parent of [v] children;I raised [v] children;I am bringing up [v] kids"
        ";[v] is the number of my children;my kids are [v] in number;I have a family with [v] children"
        ";I am blessed with [v] children",
        "how many (children|kids) do I have?;do you know how many (children|kids) I have?"
        ";how many kids have I got?;what is the number of my children?;how many children am I raising?"
        ";how many little ones do I have?;how many children did I (raise|bring up)?"
        ";of how many children am I the parent?;(how many|what number of) children have I got?"
        ";how many kids did I say I have?;how many children are in my family?"
        ";how many kids am I bringing up?",
        "you have [v] children",
        "how many children they have",
        weight=0.5,
    ),
    deed(
        "digits",
        "I have [v] (siblings|brothers and sisters);I'm one of many, I have [v] siblings;"
        "I grew up with [v] (siblings|brothers and sisters)"
        ";I've got [v] (siblings|brothers and sisters);my parents had [v] other children"
        ";I have [v] siblings in all;I share my parents with [v] siblings;[v] siblings grew up with me"
        ";there are [v] siblings beside me",
        "how many (brothers and sisters|siblings) do I have?;how many (brothers and sisters|siblings) "
        "did I grow up with?;(how many|what number of) siblings have I got?"
        ";how many siblings have I got?;how many brothers and sisters are there in my family?"
        ";how many other children did my parents have?;how many siblings do I share my parents with?"
        ";what is the number of my siblings?;how many siblings did I say I have?"
        ";how many siblings grew up with me?",
        "you have [v] siblings",
        "how many siblings they have",
        weight=0.3,
    ),
)

SELF += (
    deed(
        "spot",
        "I parked [v];I parked (the car|my car|the van) [v];I left the car [v];"
        "my car is (standing |waiting |)[v];the car is [v]"
        ";I stopped [v];I (put|stowed) the car [v];my car stands [v];I (found|got) a parking space [v]"
        ";my parking spot is [v];I let the car stand [v];my car was left [v];I stood the car [v]"
        ";my car sits [v]",
        "where did I park(| the car| my car)?;where did I leave (my|the) car?;"
        f"{RECALL} where I parked?;where is my car parked?;"
        "where is (my|the) car(| standing| waiting)?;where do I find (my|the) car?"
        ";where does my car stand?;where did I stop?;where did I (put|stow) (my|the) car?"
        ";where did I find a parking space?;where is my parking spot?;where can I find my car?"
        ";in what place is my car?;where must I look for my car?;where was my car left?;where's my car?"
        ";where have I parked?;where does my car sit?",
        "you parked [v]",
        "where they parked",
        weight=0.7,
    ),
    deed(
        "subject",
        "I teach [v];I teach [v] at a school;I give lessons in [v];I am a teacher of [v];"
        "my pupils learn [v] from me;my classes are in [v]"
        ";my subject at school is [v];I am a [v] teacher;I instruct people in [v];my lessons are in [v]"
        ";children learn [v] from me;I stand in front of a class and teach [v];I tutor students in [v]"
        ";I lecture in [v];I explain [v] to children;the subject I teach is [v]"
        ";I have been teaching [v] for years;I give classes in [v]",
        f"what do I teach?;(which|what) subject do I teach?;{RECALL} what I teach?;"
        "what do my pupils learn from me?;what are my classes in?"
        ";what do I lecture in?;what are my lessons in?;(what|which) subject do I give lessons in?"
        ";what am I a teacher of?;what do I (instruct people|tutor students) in?;what is it that I teach?"
        ";(what|which) classes do I give?;what do children learn from me?;what do I explain to children?"
        ";what have I been teaching?;(what|which) subject am I teaching?;what is the subject I teach?",
        "you teach [v]",
        "what they teach",
    ),
    deed(
        "spot",
        "I am sitting [v];I sit [v];I am [v];I'm [v] right now"
        ";I'm standing [v];I am waiting [v];at the moment I am [v];I find myself [v];right now I am [v]"
        ";I am spending the (day|evening) [v];I am hanging out [v];I just sat down [v];I lie [v]"
        ";I am to be found [v];I am writing this [v]",
        f"where am I(| right now| now| sitting)?;{RECALL} where I am?"
        ";where am I standing?;where am I waiting?;where do I find myself?;where am I hanging out?"
        ";where did I sit down?;where am I at the moment?;where can I be found?;in what place am I?"
        ";where am I spending the (day|evening)?;where am I right now?;whereabouts am I?"
        ";what is my location?",
        "you are [v]",
        "where they are",
    ),
    deed(
        "name",
        "I live with [v];I share a flat with [v];"
        "my (flatmate|roommate|housemate) is [v];I have a flat together with [v]"
        ";I have a flatmate, [v];I live together with [v];[v] lives with me;I moved in with [v]"
        ";I share (a house|my home|the rent|an apartment) with [v];my home is shared with [v]"
        ";I have [v] as a (flatmate|roommate);I split the rent with [v];the person I live with is [v]"
        ";under my roof lives [v];at home I have [v] for company",
        "who do I live with?;with whom do I live?;who lives with me?;"
        "who is my (flatmate|roommate|housemate)?;who do I share (a flat|a home) with?"
        ";who is under my roof?;who do I share the rent with?;who did I move in with?;who shares my home?"
        ";who do I live together with?;who do I have as a flatmate?;who is the person I live with?"
        ";whose company do I have at home?;who do I split the rent with?;who else lives in my home?"
        ";what is my flatmate called?",
        "you live with [v]",
        "who they live with",
    ),
    deed(
        "drink",
        "I drink [v];I like to drink [v];I love to drink [v]"
        ";I enjoy a glass of [v];I'm a [v] drinker;my favourite drink is [v];I quench my thirst with [v]"
        ";[v] is the drink I like;I prefer to drink [v]",
        "what do I (like|love) to drink?;what do I drink?;which drink do I like?"
        ";what do I enjoy drinking?;what am I a drinker of?;(what|which) drink do I (love|prefer|enjoy)?"
        ";what is my favourite drink?;what do I quench my thirst with?;what do I prefer to drink?"
        ";what do I like in my glass?",
        "you drink [v]",
        "what they drink",
    ),
)
SELF += (
    deed(
        "year",
        "I was born in [v];my (year of birth|birth year) is [v];I was born in the year [v];"
        "I came into the world in [v]"
        ";my birth year was [v];I am a child of [v];I was a [v] baby;I have been around since [v]"
        ";my passport says I was born in [v];I saw the light of day in [v];I date from [v]"
        ";[v] is the year I was born(| in);it was [v] when I was born;my year is [v]",
        f"when was I born?;(what|which) year was I born(| in)?;{RECALL} when I was born?;"
        "what is my (year of birth|birth year)?;"
        "in (what|which) year was I born?"
        ";in what year did I come into the world?;since when have I been around?"
        ";what year does my passport say I was born in?;what is the year I was born in?"
        ";what year did I see the light of day?;my year of birth?;what year do I date from?"
        ";when did I come into the world?;(what|which) year am I from?;what is my year?",
        "you were born in [v]",
        "the year when they were born",
        weight=0.7,
    ),
    deed(
        "trait",
        "I am [v];I'm [v];I am [v];I'm [v];I happen to be [v];I have always been [v]"
        ";I am said to be [v];people say I am [v];I tend to be [v];I am known to be [v]"
        ";everyone says I am [v];I've been [v] all my life;I am quite [v];I am rather [v]"
        ";my friends say I am [v]",
        f"am I [v]?;am I [v]?;what am I?;{RECALL} (whether I am [v]|what I am)?;did I say that I am [v]?"
        ";would you say I am [v]?;is it true that I am [v]?;am I said to be [v]?;do people say I am [v]?"
        ";have I always been [v]?;(did I tell you|have I said) (that |)I am [v]?",
        "you are [v]",
        "whether they are [v]",
        weight=1.0,
    ),
)
