"""Words of everyday English by what a sentence does with them; clauses.py composes with these."""

from __future__ import annotations

import re


def lines(text: str) -> list[str]:
    """The entries of text, which stand between semicolons and line ends."""
    return [line.strip() for line in re.split("[;\n]", text) if line.strip()]


def entries(text: str) -> list[tuple[str, ...]]:
    """The entries of text, each split at spaces; a hyphen stands for a space inside a part."""
    return [tuple(part.replace("-", " ") for part in line.split()) for line in lines(text)]


# Verbs: base, past, past participle, -ing.
TRANSITIVE_THING = entries(
    """
buy bought bought buying; sell sold sold selling; find found found finding; lose lost lost losing
see saw seen seeing; take took taken taking; bring brought brought bringing; carry carried carried carrying
keep kept kept keeping; use used used using; need needed needed needing; want wanted wanted wanting
move moved moved moving; hold held held holding; clean cleaned cleaned cleaning; wash washed washed washing
open opened opened opening; close closed closed closing; break broke broken breaking; fix fixed fixed fixing
mend mended mended mending; repair repaired repaired repairing; paint painted painted painting
pick-up picked-up picked-up picking-up; put-away put-away put-away putting-away
put-down put-down put-down putting-down; put-back put-back put-back putting-back
throw-away threw-away thrown-away throwing-away; throw-out threw-out thrown-out throwing-out
give-away gave-away given-away giving-away; take-back took-back taken-back taking-back
bring-back brought-back brought-back bringing-back; send-back sent-back sent-back sending-back
hand-in handed-in handed-in handing-in; take-out took-out taken-out taking-out
look-for looked-for looked-for looking-for; look-at looked-at looked-at looking-at
wait-for waited-for waited-for waiting-for; pay-for paid-for paid-for paying-for
ask-for asked-for asked-for asking-for; search-for searched-for searched-for searching-for
like liked liked liking; love loved loved loving; hate hated hated hating; choose chose chosen choosing
order ordered ordered ordering; hide hid hidden hiding; drop dropped dropped dropping
borrow borrowed borrowed borrowing; rent rented rented renting; steal stole stolen stealing
lend-out lent-out lent-out lending-out; share shared shared sharing; swap swapped swapped swapping
trade traded traded trading; collect collected collected collecting; fetch fetched fetched fetching
check checked checked checking; test tested tested testing; try-out tried-out tried-out trying-out
examine examined examined examining; inspect inspected inspected inspecting
measure measured measured measuring; weigh weighed weighed weighing; count counted counted counting
photograph photographed photographed photographing; draw drew drawn drawing
sketch sketched sketched sketching; film filmed filmed filming; describe described described describing
mention mentioned mentioned mentioning; notice noticed noticed noticing; spot spotted spotted spotting
remember remembered remembered remembering; forget forgot forgotten forgetting
recognise recognised recognised recognising; touch touched touched touching; grab grabbed grabbed grabbing
catch caught caught catching; throw threw thrown throwing; kick kicked kicked kicking
push pushed pushed pushing; pull pulled pulled pulling; lift lifted lifted lifting
drag dragged dragged dragging; shake shook shaken shaking; roll rolled rolled rolling
turn-over turned-over turned-over turning-over; turn-round turned-round turned-round turning-round
flip-over flipped-over flipped-over flipping-over; tip-over tipped-over tipped-over tipping-over
knock-over knocked-over knocked-over knocking-over; bump-into bumped-into bumped-into bumping-into
trip-over tripped-over tripped-over tripping-over; step-on stepped-on stepped-on stepping-on
sit-on sat-on sat-on sitting-on; lean-on leant-on leant-on leaning-on
stand-on stood-on stood-on standing-on; climb-onto climbed-onto climbed-onto climbing-onto
jump-over jumped-over jumped-over jumping-over; run-into ran-into run-into running-into
drive-into drove-into driven-into driving-into; back-into backed-into backed-into backing-into
crash-into crashed-into crashed-into crashing-into; stumble-over stumbled-over stumbled-over stumbling-over
walk-into walked-into walked-into walking-into; pack packed packed packing
unpack unpacked unpacked unpacking; wrap wrapped wrapped wrapping; unwrap unwrapped unwrapped unwrapping
wrap-up wrapped-up wrapped-up wrapping-up; box-up boxed-up boxed-up boxing-up
cover covered covered covering; uncover uncovered uncovered uncovering; label labelled labelled labelling
mark marked marked marking; number numbered numbered numbering; sort-out sorted-out sorted-out sorting-out
tidy-up tidied-up tidied-up tidying-up; tidy-away tidied-away tidied-away tidying-away
clear-away cleared-away cleared-away clearing-away; clean-up cleaned-up cleaned-up cleaning-up
wipe wiped wiped wiping; dust dusted dusted dusting; polish polished polished polishing
scrub scrubbed scrubbed scrubbing; rinse rinsed rinsed rinsing; dry dried dried drying
scrape scraped scraped scraping; sand sanded sanded sanding; varnish varnished varnished varnishing
oil oiled oiled oiling; grease greased greased greasing; wax waxed waxed waxing
spray sprayed sprayed spraying; glue glued glued gluing
stick-together stuck-together stuck-together sticking-together; tape-up taped-up taped-up taping-up
tie-up tied-up tied-up tying-up; untie untied untied untying; nail-down nailed-down nailed-down nailing-down
screw-down screwed-down screwed-down screwing-down; bolt-down bolted-down bolted-down bolting-down
fasten fastened fastened fastening; loosen loosened loosened loosening
tighten tightened tightened tightening; hang hung hung hanging; hang-up hung-up hung-up hanging-up
take-down took-down taken-down taking-down; put-up put-up put-up putting-up; set-up set-up set-up setting-up
set-down set-down set-down setting-down; lay-down laid-down laid-down laying-down
lay-out laid-out laid-out laying-out; line-up lined-up lined-up lining-up; stack stacked stacked stacking
pile-up piled-up piled-up piling-up; store stored stored storing; stow stowed stowed stowing
put-aside put-aside put-aside putting-aside; set-aside set-aside set-aside setting-aside
save saved saved saving; waste wasted wasted wasting; use-up used-up used-up using-up
run-out-of ran-out-of run-out-of running-out-of; finish finished finished finishing
start-on started-on started-on starting-on; make made made making; build built built building
assemble assembled assembled assembling; put-together put-together put-together putting-together
take-apart took-apart taken-apart taking-apart; dismantle dismantled dismantled dismantling
rebuild rebuilt rebuilt rebuilding; redo redid redone redoing; replace replaced replaced replacing
restore restored restored restoring; renovate renovated renovated renovating
decorate decorated decorated decorating; cut cut cut cutting; cut-up cut-up cut-up cutting-up
chop-up chopped-up chopped-up chopping-up; saw-up sawed-up sawn-up sawing-up; slice sliced sliced slicing
split split split splitting; tear tore torn tearing; tear-up tore-up torn-up tearing-up
rip ripped ripped ripping; crush crushed crushed crushing; squash squashed squashed squashing
flatten flattened flattened flattening; bend bent bent bending
straighten straightened straightened straightening; twist twisted twisted twisting
fold folded folded folding; unfold unfolded unfolded unfolding; snap snapped snapped snapping
smash smashed smashed smashing; crack cracked cracked cracking; chip chipped chipped chipping
scratch scratched scratched scratching; dent dented dented denting; damage damaged damaged damaging
ruin ruined ruined ruining; spoil spoilt spoilt spoiling; wreck wrecked wrecked wrecking
destroy destroyed destroyed destroying; burn burnt burnt burning; scorch scorched scorched scorching
soak soaked soaked soaking; freeze froze frozen freezing; thaw thawed thawed thawing
warm warmed warmed warming; heat-up heated-up heated-up heating-up; warm-up warmed-up warmed-up warming-up
cool-down cooled-down cooled-down cooling-down; fill filled filled filling; empty emptied emptied emptying
top-up topped-up topped-up topping-up; tip-out tipped-out tipped-out tipping-out
pour-out poured-out poured-out pouring-out; spill spilt spilt spilling; stain stained stained staining
smear smeared smeared smearing; splash splashed splashed splashing; bury buried buried burying
dig-up dug-up dug-up digging-up; dig-out dug-out dug-out digging-out; plant planted planted planting
water watered watered watering; trim trimmed trimmed trimming; prune pruned pruned pruning
shift shifted shifted shifting; slide slid slid sliding; swing swung swung swinging; spin spun spun spinning
rotate rotated rotated rotating; tilt tilted tilted tilting; lower lowered lowered lowering
raise raised raised raising; hoist hoisted hoisted hoisting; haul hauled hauled hauling
heave heaved heaved heaving; tow towed towed towing; load loaded loaded loading
unload unloaded unloaded unloading; transport transported transported transporting
deliver delivered delivered delivering; ship shipped shipped shipping; post posted posted posting
send-off sent-off sent-off sending-off; pass-round passed-round passed-round passing-round
hand-round handed-round handed-round handing-round; hand-out handed-out handed-out handing-out
show-off showed-off shown-off showing-off; display displayed displayed displaying
exhibit exhibited exhibited exhibiting; admire admired admired admiring; praise praised praised praising
criticise criticised criticised criticising
complain-about complained-about complained-about complaining-about
talk-about talked-about talked-about talking-about; write-about wrote-about written-about writing-about
read-about read-about read-about reading-about; dream-about dreamt-about dreamt-about dreaming-about
think-about thought-about thought-about thinking-about
worry-about worried-about worried-about worrying-about; laugh-at laughed-at laughed-at laughing-at
point-at pointed-at pointed-at pointing-at; stare-at stared-at stared-at staring-at
smile-at smiled-at smiled-at smiling-at; sniff sniffed sniffed sniffing; smell smelt smelt smelling
taste tasted tasted tasting; lick licked licked licking; bite bit bitten biting; chew chewed chewed chewing
feed fed fed feeding; own owned owned owning; inherit inherited inherited inheriting; win won won winning
earn earned earned earning; auction-off auctioned-off auctioned-off auctioning-off
bid-for bid-for bid-for bidding-for; pawn pawned pawned pawning; sell-off sold-off sold-off selling-off
haggle-over haggled-over haggled-over haggling-over; argue-over argued-over argued-over arguing-over
fight-over fought-over fought-over fighting-over
quarrel-over quarrelled-over quarrelled-over quarrelling-over; insure insured insured insuring
register registered registered registering; reserve reserved reserved reserving; book booked booked booking
hire hired hired hiring; lease leased leased leasing; return returned returned returning
exchange exchanged exchanged exchanging; refund refunded refunded refunding
recycle recycled recycled recycling; scrap scrapped scrapped scrapping; dump dumped dumped dumping
bin binned binned binning; get-rid-of got-rid-of got-rid-of getting-rid-of
part-with parted-with parted-with parting-with; leave-behind left-behind left-behind leaving-behind
mislay mislaid mislaid mislaying; misplace misplaced misplaced misplacing
track-down tracked-down tracked-down tracking-down; come-across came-across come-across coming-across
stumble-upon stumbled-upon stumbled-upon stumbling-upon; discover discovered discovered discovering
rescue rescued rescued rescuing; guard guarded guarded guarding; protect protected protected protecting
watch watched watched watching; keep-an-eye-on kept-an-eye-on kept-an-eye-on keeping-an-eye-on
look-after looked-after looked-after looking-after; take-care-of took-care-of taken-care-of taking-care-of
lock-up locked-up locked-up locking-up; lock-away locked-away locked-away locking-away
chain-up chained-up chained-up chaining-up; unlock unlocked unlocked unlocking; shut shut shut shutting
prop-up propped-up propped-up propping-up; hold-up held-up held-up holding-up
hold-on-to held-on-to held-on-to holding-on-to; let-go-of let-go-of let-go-of letting-go-of
cling-to clung-to clung-to clinging-to; reach-for reached-for reached-for reaching-for
grope-for groped-for groped-for groping-for; poke poked poked poking; prod prodded prodded prodding
pat patted patted patting; stroke stroked stroked stroking; squeeze squeezed squeezed squeezing
hug hugged hugged hugging; rub rubbed rubbed rubbing; tap tapped tapped tapping
bang-on banged-on banged-on banging-on; hit hit hit hitting; beat beat beaten beating
whack whacked whacked whacking; thump thumped thumped thumping; nudge nudged nudged nudging
rattle rattled rattled rattling; steady steadied steadied steadying; balance balanced balanced balancing
juggle juggled juggled juggling; toss tossed tossed tossing; fling flung flung flinging
chuck-out chucked-out chucked-out chucking-out; hurl hurled hurled hurling
catch-hold-of caught-hold-of caught-hold-of catching-hold-of; dangle dangled dangled dangling
drape draped draped draping; tuck-away tucked-away tucked-away tucking-away
cram-in crammed-in crammed-in cramming-in; squeeze-in squeezed-in squeezed-in squeezing-in
fit-in fitted-in fitted-in fitting-in; adjust adjusted adjusted adjusting; align aligned aligned aligning
level levelled levelled levelling; modify modified modified modifying; adapt adapted adapted adapting
alter altered altered altering; convert converted converted converting; improve improved improved improving
upgrade upgraded upgraded upgrading; customise customised customised customising; dye dyed dyed dyeing
bleach bleached bleached bleaching; line lined lined lining; pad padded padded padding
reinforce reinforced reinforced reinforcing; patch-up patched-up patched-up patching-up
sew-up sewed-up sewn-up sewing-up; stitch stitched stitched stitching; knit knitted knitted knitting
crochet crocheted crocheted crocheting; carve carved carved carving; mould moulded moulded moulding
cast cast cast casting; weld welded welded welding; solder soldered soldered soldering
drill drilled drilled drilling; hammer hammered hammered hammering; chisel chiselled chiselled chiselling
file-down filed-down filed-down filing-down; trace traced traced tracing; copy copied copied copying
scan scanned scanned scanning; print printed printed printing; design designed designed designing
invent invented invented inventing; patent patented patented patenting; import imported imported importing
export exported exported exporting; stock stocked stocked stocking; price priced priced pricing
advertise advertised advertised advertising; list listed listed listing; rate rated rated rating
review reviewed reviewed reviewing; compare compared compared comparing
identify identified identified identifying; name named named naming; rename renamed renamed renaming
engrave engraved engraved engraving; sign signed signed signing; date dated dated dating
stamp stamped stamped stamping; seal sealed sealed sealing; disinfect disinfected disinfected disinfecting
vacuum vacuumed vacuumed vacuuming; sweep-up swept-up swept-up sweeping-up
hose-down hosed-down hosed-down hosing-down; defrost defrosted defrosted defrosting
shield shielded shielded shielding; shelter sheltered sheltered sheltering
camouflage camouflaged camouflaged camouflaging; bag bagged bagged bagging; crate crated crated crating
barricade barricaded barricaded barricading; block blocked blocked blocking
surround surrounded surrounded surrounding; wheel-in wheeled-in wheeled-in wheeling-in
bring-in brought-in brought-in bringing-in; bring-along brought-along brought-along bringing-along
take-along took-along taken-along taking-along; carry-off carried-off carried-off carrying-off
carry-upstairs carried-upstairs carried-upstairs carrying-upstairs
drag-out dragged-out dragged-out dragging-out; dig-for dug-for dug-for digging-for
save-up-for saved-up-for saved-up-for saving-up-for; send-for sent-for sent-for sending-for
dispose-of disposed-of disposed-of disposing-of; do-up did-up done-up doing-up
do-without did-without done-without doing-without; live-without lived-without lived-without living-without
make-do-with made-do-with made-do-with making-do-with; play-with played-with played-with playing-with
fiddle-with fiddled-with fiddled-with fiddling-with; tinker-with tinkered-with tinkered-with tinkering-with
tamper-with tampered-with tampered-with tampering-with
experiment-with experimented-with experimented-with experimenting-with
practise-with practised-with practised-with practising-with
struggle-with struggled-with struggled-with struggling-with
"""
)

TRANSITIVE_PERSON = entries(
    """
see saw seen seeing; meet met met meeting; visit visited visited visiting; call called called calling
phone phoned phoned phoning; ring rang rung ringing; help helped helped helping
thank thanked thanked thanking; ask asked asked asking; know knew known knowing; like liked liked liking
love loved loved loving; hug hugged hugged hugging; kiss kissed kissed kissing
invite invited invited inviting; pick-up picked-up picked-up picking-up
drop-off dropped-off dropped-off dropping-off; wake-up woke-up woken-up waking-up
look-after looked-after looked-after looking-after; take-care-of took-care-of taken-care-of taking-care-of
wait-for waited-for waited-for waiting-for; talk-to talked-to talked-to talking-to
speak-to spoke-to spoken-to speaking-to; chat-with chatted-with chatted-with chatting-with
write-to wrote-to written-to writing-to; text texted texted texting; email emailed emailed emailing
message messaged messaged messaging; listen-to listened-to listened-to listening-to
argue-with argued-with argued-with arguing-with
quarrel-with quarrelled-with quarrelled-with quarrelling-with
fight-with fought-with fought-with fighting-with; run-into ran-into run-into running-into
bump-into bumped-into bumped-into bumping-into; come-across came-across come-across coming-across
laugh-at laughed-at laughed-at laughing-at; smile-at smiled-at smiled-at smiling-at
wave-to waved-to waved-to waving-to; nod-at nodded-at nodded-at nodding-at
shout-at shouted-at shouted-at shouting-at; yell-at yelled-at yelled-at yelling-at
whisper-to whispered-to whispered-to whispering-to; stare-at stared-at stared-at staring-at
wink-at winked-at winked-at winking-at; look-for looked-for looked-for looking-for; find found found finding
lose lost lost losing; follow followed followed following; chase chased chased chasing
catch caught caught catching; overtake overtook overtaken overtaking; pass passed passed passing
greet greeted greeted greeting; welcome welcomed welcomed welcoming
introduce introduced introduced introducing; interview interviewed interviewed interviewing
hire hired hired hiring; employ employed employed employing; sack sacked sacked sacking
fire fired fired firing; promote promoted promoted promoting; pay paid paid paying
tip tipped tipped tipping; bribe bribed bribed bribing; trust trusted trusted trusting
believe believed believed believing; doubt doubted doubted doubting; suspect suspected suspected suspecting
accuse accused accused accusing; blame blamed blamed blaming; forgive forgave forgiven forgiving
apologise-to apologised-to apologised-to apologising-to; lie-to lied-to lied-to lying-to
trick tricked tricked tricking; fool fooled fooled fooling; cheat cheated cheated cheating
tease teased teased teasing; annoy annoyed annoyed annoying; bother bothered bothered bothering
disturb disturbed disturbed disturbing; interrupt interrupted interrupted interrupting
ignore ignored ignored ignoring; avoid avoided avoided avoiding; miss missed missed missing
forget forgot forgotten forgetting; remember remembered remembered remembering
recognise recognised recognised recognising; admire admired admired admiring
respect respected respected respecting; envy envied envied envying; pity pitied pitied pitying
comfort comforted comforted comforting; calm-down calmed-down calmed-down calming-down
cheer-up cheered-up cheered-up cheering-up; encourage encouraged encouraged encouraging
praise praised praised praising; congratulate congratulated congratulated congratulating
reward rewarded rewarded rewarding; surprise surprised surprised surprising; amuse amused amused amusing
impress impressed impressed impressing; disappoint disappointed disappointed disappointing
upset upset upset upsetting; hurt hurt hurt hurting; offend offended offended offending
insult insulted insulted insulting; frighten frightened frightened frightening; scare scared scared scaring
startle startled startled startling; worry worried worried worrying; warn warned warned warning
advise advised advised advising; teach taught taught teaching; train trained trained training
coach coached coached coaching; tutor tutored tutored tutoring; examine examined examined examining
treat treated treated treating; nurse nursed nursed nursing; feed fed fed feeding
bathe bathed bathed bathing; dress dressed dressed dressing; carry carried carried carrying
push pushed pushed pushing; pull pulled pulled pulling; tickle tickled tickled tickling
pinch pinched pinched pinching; bite bit bitten biting; hit hit hit hitting; kick kicked kicked kicking
trip-up tripped-up tripped-up tripping-up; knock-down knocked-down knocked-down knocking-down
beat beat beaten beating; defeat defeated defeated defeating; rescue rescued rescued rescuing
save saved saved saving; protect protected protected protecting; defend defended defended defending
support supported supported supporting; back backed backed backing; elect elected elected electing
vote-for voted-for voted-for voting-for; work-for worked-for worked-for working-for
work-with worked-with worked-with working-with; live-with lived-with lived-with living-with
stay-with stayed-with stayed-with staying-with; dance-with danced-with danced-with dancing-with
play-with played-with played-with playing-with; flirt-with flirted-with flirted-with flirting-with
date dated dated dating; marry married married marrying; divorce divorced divorced divorcing
adopt adopted adopted adopting; babysit babysat babysat babysitting
photograph photographed photographed photographing; paint painted painted painting
film filmed filmed filming; draw drew drawn drawing; describe described described describing
copy copied copied copying; imitate imitated imitated imitating; serve served served serving
drive-home drove-home driven-home driving-home; walk-home walked-home walked-home walking-home
see-off saw-off seen-off seeing-off; show-round showed-round shown-round showing-round
take-out took-out taken-out taking-out; let-in let-in let-in letting-in
let-down let-down let-down letting-down; tell-off told-off told-off telling-off
put-up put-up put-up putting-up; put-off put-off put-off putting-off
stand-up-for stood-up-for stood-up-for standing-up-for; get-on-with got-on-with got-on-with getting-on-with
fall-out-with fell-out-with fallen-out-with falling-out-with
make-up-with made-up-with made-up-with making-up-with
break-up-with broke-up-with broken-up-with breaking-up-with
catch-up-with caught-up-with caught-up-with catching-up-with
keep-up-with kept-up-with kept-up-with keeping-up-with
keep-an-eye-on kept-an-eye-on kept-an-eye-on keeping-an-eye-on; check-on checked-on checked-on checking-on
call-on called-on called-on calling-on; look-up-to looked-up-to looked-up-to looking-up-to
take-after took-after taken-after taking-after; rely-on relied-on relied-on relying-on
depend-on depended-on depended-on depending-on; count-on counted-on counted-on counting-on
care-for cared-for cared-for caring-for; worry-about worried-about worried-about worrying-about
gossip-about gossiped-about gossiped-about gossiping-about
complain-about complained-about complained-about complaining-about
boast-about boasted-about boasted-about boasting-about; pray-for prayed-for prayed-for praying-for
vouch-for vouched-for vouched-for vouching-for; cover-for covered-for covered-for covering-for
stand-in-for stood-in-for stood-in-for standing-in-for; replace replaced replaced replacing
sue sued sued suing; arrest arrested arrested arresting; report reported reported reporting
question questioned questioned questioning; search searched searched searching
release released released releasing; dismiss dismissed dismissed dismissing; evict evicted evicted evicting
host hosted hosted hosting; accompany accompanied accompanied accompanying
escort escorted escorted escorting; guide guided guided guiding; contact contacted contacted contacting
consult consulted consulted consulting; mimic mimicked mimicked mimicking
nickname nicknamed nicknamed nicknaming; outlive outlived outlived outliving
outwit outwitted outwitted outwitting; heckle heckled heckled heckling
"""
)

GIVING = entries(
    """
give gave given giving; lend lent lent lending; sell sold sold selling; show showed shown showing
send sent sent sending; hand handed handed handing; bring brought brought bringing; take took taken taking
pass passed passed passing; offer offered offered offering; return returned returned returning
explain explained explained explaining; promise promised promised promising; read read read reading
post posted posted posting; mail mailed mailed mailing; email emailed emailed emailing
forward forwarded forwarded forwarding; throw threw thrown throwing; deliver delivered delivered delivering
describe described described describing; mention mentioned mentioned mentioning
recommend recommended recommended recommending; suggest suggested suggested suggesting
introduce introduced introduced introducing; present presented presented presenting
donate donated donated donating; leave left left leaving; rent rented rented renting
rent-out rented-out rented-out renting-out; lease leased leased leasing; loan loaned loaned loaning
owe owed owed owing; award awarded awarded awarding; grant granted granted granting
serve served served serving; feed fed fed feeding; demonstrate demonstrated demonstrated demonstrating
hand-over handed-over handed-over handing-over; hand-back handed-back handed-back handing-back
give-back gave-back given-back giving-back; give-away gave-away given-away giving-away
pass-on passed-on passed-on passing-on; send-back sent-back sent-back sending-back
send-on sent-on sent-on sending-on; bequeath bequeathed bequeathed bequeathing
entrust entrusted entrusted entrusting; ship shipped shipped shipping
transfer transferred transferred transferring; toss tossed tossed tossing; roll rolled rolled rolling
slide slid slid sliding; fling flung flung flinging; kick kicked kicked kicking
chuck chucked chucked chucking; slip slipped slipped slipping; carry carried carried carrying
drag dragged dragged dragging; assign assigned assigned assigning; allocate allocated allocated allocating
reveal revealed revealed revealing; report reported reported reporting; supply supplied supplied supplying
distribute distributed distributed distributing; hand-out handed-out handed-out handing-out
dish-out dished-out dished-out dishing-out; surrender surrendered surrendered surrendering
restore restored restored restoring; point-out pointed-out pointed-out pointing-out
wheel wheeled wheeled wheeling; push pushed pushed pushing; dedicate dedicated dedicated dedicating
sign-over signed-over signed-over signing-over; toss-back tossed-back tossed-back tossing-back
take-back took-back taken-back taking-back; bring-back brought-back brought-back bringing-back
hand-down handed-down handed-down handing-down
"""
)

ALONE = entries(
    """
sleep slept slept sleeping; eat ate eaten eating; work worked worked working; rest rested rested resting
sit sat sat sitting; stand stood stood standing; walk walked walked walking; run ran run running
swim swam swum swimming; dance danced danced dancing; sing sang sung singing; laugh laughed laughed laughing
cry cried cried crying; smile smiled smiled smiling; wait waited waited waiting
arrive arrived arrived arriving; leave left left leaving; stay stayed stayed staying
go-out went-out gone-out going-out; come-back came-back come-back coming-back
go-home went-home gone-home going-home; wake-up woke-up woken-up waking-up; get-up got-up got-up getting-up
sit-down sat-down sat-down sitting-down; stand-up stood-up stood-up standing-up
lie-down lay-down lain-down lying-down; fall fell fallen falling
fall-over fell-over fallen-over falling-over; fall-asleep fell-asleep fallen-asleep falling-asleep
slip slipped slipped slipping; trip tripped tripped tripping; stumble stumbled stumbled stumbling
limp limped limped limping; hobble hobbled hobbled hobbling; crawl crawled crawled crawling
climb climbed climbed climbing; jump jumped jumped jumping; hop hopped hopped hopping
skip skipped skipped skipping; leap leapt leapt leaping; kneel knelt knelt kneeling
crouch crouched crouched crouching; squat squatted squatted squatting
stretch stretched stretched stretching; yawn yawned yawned yawning; sneeze sneezed sneezed sneezing
cough coughed coughed coughing; hiccup hiccuped hiccuped hiccuping; snore snored snored snoring
sigh sighed sighed sighing; groan groaned groaned groaning; moan moaned moaned moaning
mumble mumbled mumbled mumbling; mutter muttered muttered muttering; whisper whispered whispered whispering
whistle whistled whistled whistling; hum hummed hummed humming; shout shouted shouted shouting
scream screamed screamed screaming; yell yelled yelled yelling; giggle giggled giggled giggling
grin grinned grinned grinning; chuckle chuckled chuckled chuckling; frown frowned frowned frowning
blush blushed blushed blushing; wink winked winked winking; blink blinked blinked blinking
nod nodded nodded nodding; shrug shrugged shrugged shrugging; wave waved waved waving
clap clapped clapped clapping; cheer cheered cheered cheering; boo booed booed booing
bow bowed bowed bowing; shiver shivered shivered shivering; tremble trembled trembled trembling
sweat sweated sweated sweating; faint fainted fainted fainting; panic panicked panicked panicking
bleed bled bled bleeding; vomit vomited vomited vomiting; recover recovered recovered recovering
heal healed healed healing; suffer suffered suffered suffering; age aged aged aging
grow-up grew-up grown-up growing-up; retire retired retired retiring; resign resigned resigned resigning
quit quit quit quitting; graduate graduated graduated graduating; study studied studied studying
practise practised practised practising; train trained trained training; revise revised revised revising
cheat cheated cheated cheating; fail failed failed failing; win won won winning; lose lost lost losing
give-up gave-up given-up giving-up; give-in gave-in given-in giving-in
carry-on carried-on carried-on carrying-on; start-over started-over started-over starting-over
show-up showed-up shown-up showing-up; turn-up turned-up turned-up turning-up
drop-in dropped-in dropped-in dropping-in; drop-out dropped-out dropped-out dropping-out
check-in checked-in checked-in checking-in; check-out checked-out checked-out checking-out
move-in moved-in moved-in moving-in; move-out moved-out moved-out moving-out
move-away moved-away moved-away moving-away; settle-down settled-down settled-down settling-down
break-down broke-down broken-down breaking-down; calm-down calmed-down calmed-down calming-down
cheer-up cheered-up cheered-up cheering-up; speed-up sped-up sped-up speeding-up
slow-down slowed-down slowed-down slowing-down; hurry-up hurried-up hurried-up hurrying-up
hold-on held-on held-on holding-on; hang-on hung-on hung-on hanging-on
log-in logged-in logged-in logging-in; ring-off rang-off rung-off ringing-off
hang-up hung-up hung-up hanging-up; call-back called-back called-back calling-back
travel travelled travelled travelling; drive drove driven driving; cycle cycled cycled cycling
commute commuted commuted commuting; hike hiked hiked hiking; jog jogged jogged jogging
sprint sprinted sprinted sprinting; ski skied skied skiing; skate skated skated skating
sail sailed sailed sailing; row rowed rowed rowing; fish fished fished fishing; hunt hunted hunted hunting
camp camped camped camping; picnic picnicked picnicked picnicking; cook cooked cooked cooking
bake baked baked baking; clean cleaned cleaned cleaning; tidy-up tidied-up tidied-up tidying-up
shop shopped shopped shopping; knit knitted knitted knitting; sew sewed sewn sewing
paint painted painted painting; draw drew drawn drawing; read read read reading; write wrote written writing
play played played playing; pray prayed prayed praying; meditate meditated meditated meditating
dream dreamt dreamt dreaming; daydream daydreamed daydreamed daydreaming; worry worried worried worrying
complain complained complained complaining; argue argued argued arguing
quarrel quarrelled quarrelled quarrelling; apologise apologised apologised apologising; lie lied lied lying
joke joked joked joking; gossip gossiped gossiped gossiping; chat chatted chatted chatting
listen listened listened listening; look-up looked-up looked-up looking-up
look-away looked-away looked-away looking-away; turn-round turned-round turned-round turning-round
disappear disappeared disappeared disappearing; hide hid hidden hiding; escape escaped escaped escaping
run-away ran-away run-away running-away; back-out backed-out backed-out backing-out
back-off backed-off backed-off backing-off; step-aside stepped-aside stepped-aside stepping-aside
stay-in stayed-in stayed-in staying-in; stay-up stayed-up stayed-up staying-up
oversleep overslept overslept oversleeping; doze-off dozed-off dozed-off dozing-off
nod-off nodded-off nodded-off nodding-off; pass-out passed-out passed-out passing-out
throw-up threw-up thrown-up throwing-up; work-out worked-out worked-out working-out
warm-up warmed-up warmed-up warming-up; dress-up dressed-up dressed-up dressing-up
eat-out ate-out eaten-out eating-out; lose-out lost-out lost-out losing-out; cut-in cut-in cut-in cutting-in
chip-in chipped-in chipped-in chipping-in; join-in joined-in joined-in joining-in
help-out helped-out helped-out helping-out; volunteer volunteered volunteered volunteering
protest protested protested protesting; vote voted voted voting; emigrate emigrated emigrated emigrating
drown drowned drowned drowning; survive survived survived surviving; die died died dying
hesitate hesitated hesitated hesitating; shudder shuddered shuddered shuddering
wobble wobbled wobbled wobbling; sulk sulked sulked sulking; sob sobbed sobbed sobbing
weep wept wept weeping; pout pouted pouted pouting; fidget fidgeted fidgeted fidgeting
dawdle dawdled dawdled dawdling
"""
)

THINGS_DO = entries(
    """
break broke broken breaking; stop-working stopped-working stopped-working stopping-working
break-down broke-down broken-down breaking-down; work worked worked working; leak leaked leaked leaking
drip dripped dripped dripping; rattle rattled rattled rattling; squeak squeaked squeaked squeaking
creak creaked creaked creaking; ring rang rung ringing; glow glowed glowed glowing
rust rusted rusted rusting; burn burnt burnt burning; melt melted melted melting
freeze froze frozen freezing; crack cracked cracked cracking; snap snapped snapped snapping
split split split splitting; burst burst burst bursting; explode exploded exploded exploding
fall fell fallen falling; fall-over fell-over fallen-over falling-over
fall-off fell-off fallen-off falling-off; fall-apart fell-apart fallen-apart falling-apart
fall-down fell-down fallen-down falling-down; come-off came-off come-off coming-off
come-loose came-loose come-loose coming-loose; come-apart came-apart come-apart coming-apart
tip-over tipped-over tipped-over tipping-over; slip slipped slipped slipping; slide slid slid sliding
roll-away rolled-away rolled-away rolling-away; float floated floated floating; sink sank sunk sinking
drift-away drifted-away drifted-away drifting-away; blow-away blew-away blown-away blowing-away
disappear disappeared disappeared disappearing; vanish vanished vanished vanishing
turn-up turned-up turned-up turning-up; get-lost got-lost got-lost getting-lost
shrink shrank shrunk shrinking; stretch stretched stretched stretching; swell swelled swollen swelling
fade faded faded fading; rot rotted rotted rotting; smell smelt smelt smelling; stink stank stunk stinking
dry-out dried-out dried-out drying-out; overheat overheated overheated overheating
cool-down cooled-down cooled-down cooling-down; warm-up warmed-up warmed-up warming-up
smoke smoked smoked smoking; catch-fire caught-fire caught-fire catching-fire
spark sparked sparked sparking; flash flashed flashed flashing; flicker flickered flickered flickering
shine shone shone shining; sparkle sparkled sparkled sparkling; gleam gleamed gleamed gleaming
light-up lit-up lit-up lighting-up; go-out went-out gone-out going-out
switch-off switched-off switched-off switching-off; start started started starting
stop stopped stopped stopping; jam jammed jammed jamming; stick stuck stuck sticking
get-stuck got-stuck got-stuck getting-stuck; wobble wobbled wobbled wobbling; shake shook shaken shaking
vibrate vibrated vibrated vibrating; tremble trembled trembled trembling; sway swayed swayed swaying
swing swung swung swinging; spin spun spun spinning; rotate rotated rotated rotating
turn turned turned turning; move moved moved moving; bounce bounced bounced bouncing; bend bent bent bending
warp warped warped warping; buckle buckled buckled buckling; sag sagged sagged sagging
droop drooped drooped drooping; tilt tilted tilted tilting; lean leant leant leaning
crumble crumbled crumbled crumbling; collapse collapsed collapsed collapsing
topple toppled toppled toppling; shatter shattered shattered shattering; tear tore torn tearing
fray frayed frayed fraying; wear-out wore-out worn-out wearing-out; peel peeled peeled peeling
flake flaked flaked flaking; chip chipped chipped chipping; buzz buzzed buzzed buzzing
hum hummed hummed humming; beep beeped beeped beeping; click clicked clicked clicking
tick ticked ticked ticking; hiss hissed hissed hissing; whistle whistled whistled whistling
rumble rumbled rumbled rumbling; bang banged banged banging; clank clanked clanked clanking
crash crashed crashed crashing; freeze-up froze-up frozen-up freezing-up
seize-up seized-up seized-up seizing-up; play-up played-up played-up playing-up
run-out ran-out run-out running-out; run-down ran-down run-down running-down
arrive arrived arrived arriving; go-missing went-missing gone-missing going-missing
get-wet got-wet got-wet getting-wet; get-dirty got-dirty got-dirty getting-dirty
go-mouldy went-mouldy gone-mouldy going-mouldy; go-rusty went-rusty gone-rusty going-rusty
go-off went-off gone-off going-off; dissolve dissolved dissolved dissolving
evaporate evaporated evaporated evaporating; decay decayed decayed decaying; ignite ignited ignited igniting
clog-up clogged-up clogged-up clogging-up; steam-up steamed-up steamed-up steaming-up
"""
)

SAYING = entries(
    """
say said said saying; think thought thought thinking; know knew known knowing; hope hoped hoped hoping
believe believed believed believing; hear heard heard hearing; read read read reading; see saw seen seeing
feel felt felt feeling; find found found finding; guess guessed guessed guessing
suppose supposed supposed supposing; expect expected expected expecting; notice noticed noticed noticing
realise realised realised realising; remember remembered remembered remembering
forget forgot forgotten forgetting; find-out found-out found-out finding-out
complain complained complained complaining; announce announced announced announcing
admit admitted admitted admitting; claim claimed claimed claiming; explain explained explained explaining
mention mentioned mentioned mentioning; promise promised promised promising; reply replied replied replying
answer answered answered answering; agree agreed agreed agreeing; argue argued argued arguing
insist insisted insisted insisting; swear swore sworn swearing; pretend pretended pretended pretending
dream dreamt dreamt dreaming; imagine imagined imagined imagining; doubt doubted doubted doubting
suspect suspected suspected suspecting; fear feared feared fearing; worry worried worried worrying
decide decided decided deciding; discover discovered discovered discovering; learn learnt learnt learning
understand understood understood understanding; report reported reported reporting
declare declared declared declaring; confess confessed confessed confessing; deny denied denied denying
suggest suggested suggested suggesting; predict predicted predicted predicting
boast boasted boasted boasting; point-out pointed-out pointed-out pointing-out; hint hinted hinted hinting
conclude concluded concluded concluding; assume assumed assumed assuming; prove proved proved proving
confirm confirmed confirmed confirming; repeat repeated repeated repeating; shout shouted shouted shouting
whisper whispered whispered whispering; write wrote written writing; bet bet bet betting
reckon reckoned reckoned reckoning; joke joked joked joking; grumble grumbled grumbled grumbling
recall recalled recalled recalling
"""
)

ASKING = entries(
    """
ask asked asked asking; tell told told telling; want wanted wanted wanting; help helped helped helping
allow allowed allowed allowing; remind reminded reminded reminding; beg begged begged begging
force forced forced forcing; advise advised advised advising; warn warned warned warning
teach taught taught teaching; invite invited invited inviting; encourage encouraged encouraged encouraging
expect expected expected expecting; order ordered ordered ordering; need needed needed needing
persuade persuaded persuaded persuading; convince convinced convinced convincing; urge urged urged urging
challenge challenged challenged challenging; permit permitted permitted permitting
forbid forbade forbidden forbidding; trust trusted trusted trusting; train trained trained training
pay paid paid paying; hire hired hired hiring; bribe bribed bribed bribing; push pushed pushed pushing
press pressed pressed pressing; tempt tempted tempted tempting; dare dared dared daring
instruct instructed instructed instructing; command commanded commanded commanding
request requested requested requesting; implore implored implored imploring; oblige obliged obliged obliging
compel compelled compelled compelling; enable enabled enabled enabling; choose chose chosen choosing
get got got getting; authorise authorised authorised authorising; nag nagged nagged nagging
trick tricked tricked tricking; inspire inspired inspired inspiring; motivate motivated motivated motivating
"""
)

WANTING = entries(
    """
want wanted wanted wanting; plan planned planned planning; hope hoped hoped hoping; try tried tried trying
need needed needed needing; forget forgot forgotten forgetting; remember remembered remembered remembering
decide decided decided deciding; refuse refused refused refusing; manage managed managed managing
promise promised promised promising; offer offered offered offering; agree agreed agreed agreeing
like liked liked liking; love loved loved loving; hate hated hated hating
prefer preferred preferred preferring; learn learnt learnt learning; start started started starting
begin began begun beginning; continue continued continued continuing; expect expected expected expecting
intend intended intended intending; attempt attempted attempted attempting; fail failed failed failing
choose chose chosen choosing; wish wished wished wishing; long longed longed longing
threaten threatened threatened threatening; pretend pretended pretended pretending
hesitate hesitated hesitated hesitating; arrange arranged arranged arranging
prepare prepared prepared preparing; struggle struggled struggled struggling; tend tended tended tending
volunteer volunteered volunteered volunteering; vow vowed vowed vowing; swear swore sworn swearing
aim aimed aimed aiming; mean meant meant meaning; dare dared dared daring
neglect neglected neglected neglecting; resolve resolved resolved resolving
demand demanded demanded demanding; ask asked asked asking; beg begged begged begging
decline declined declined declining; consent consented consented consenting; hurry hurried hurried hurrying
rush rushed rushed rushing; fight fought fought fighting; wait waited waited waiting
apply applied applied applying; cease ceased ceased ceasing; yearn yearned yearned yearning
"""
)

STARTING = entries(
    """
start started started starting; stop stopped stopped stopping; enjoy enjoyed enjoyed enjoying
avoid avoided avoided avoiding; keep kept kept keeping; give-up gave-up given-up giving-up
miss missed missed missing; hate hated hated hating; love loved loved loving; like liked liked liking
dislike disliked disliked disliking; finish finished finished finishing; quit quit quit quitting
begin began begun beginning; continue continued continued continuing
consider considered considered considering; regret regretted regretted regretting
remember remembered remembered remembering; postpone postponed postponed postponing
put-off put-off put-off putting-off; practise practised practised practising
suggest suggested suggested suggesting; recommend recommended recommended recommending
imagine imagined imagined imagining; deny denied denied denying; admit admitted admitted admitting
dread dreaded dreaded dreading; resume resumed resumed resuming; carry-on carried-on carried-on carrying-on
keep-on kept-on kept-on keeping-on; go-on went-on gone-on going-on; try tried tried trying
resent resented resented resenting; take-up took-up taken-up taking-up; delay delayed delayed delaying
risk risked risked risking; insist-on insisted-on insisted-on insisting-on
think-about thought-about thought-about thinking-about; talk-about talked-about talked-about talking-about
dream-of dreamt-of dreamt-of dreaming-of; get-used-to got-used-to got-used-to getting-used-to
end-up ended-up ended-up ending-up
"""
)

RISING = entries(
    """
go-up went-up gone-up going-up; go-down went-down gone-down going-down; rise rose risen rising
fall fell fallen falling; drop dropped dropped dropping; increase increased increased increasing
decrease decreased decreased decreasing; climb climbed climbed climbing; grow grew grown growing
shrink shrank shrunk shrinking; sink sank sunk sinking; jump jumped jumped jumping
dip dipped dipped dipping; slip slipped slipped slipping; slide slid slid sliding
come-down came-down come-down coming-down; shoot-up shot-up shot-up shooting-up
creep-up crept-up crept-up creeping-up; leap leapt leapt leaping; soar soared soared soaring
plunge plunged plunged plunging; tumble tumbled tumbled tumbling; plummet plummeted plummeted plummeting
rocket rocketed rocketed rocketing; decline declined declined declining; edge-up edged-up edged-up edging-up
edge-down edged-down edged-down edging-down; inch-up inched-up inched-up inching-up
dwindle dwindled dwindled dwindling; swell swelled swollen swelling; surge surged surged surging
slump slumped slumped slumping; drift-down drifted-down drifted-down drifting-down; ease eased eased easing
nosedive nosedived nosedived nosediving; skyrocket skyrocketed skyrocketed skyrocketing
drift-up drifted-up drifted-up drifting-up; crash crashed crashed crashing
"""
)

# Nouns, places, times and the rest, whole as they stand.
THINGS = lines(
    """
book; cup; chair; table; lamp; phone; bag; box; key; door; window; bed; clock; watch; car; bike; bus; train
ball; hat; coat; shoe; shirt; dress; sock; cat; dog; bird; horse; pen; pencil; letter; card; picture; photo
map; knife; fork; spoon; plate; bowl; glass; bottle; mug; kettle; pan; pot; oven; fridge; sofa; desk; shelf
mirror; hammer; saw; screwdriver; spanner; drill; chisel; file; wrench; crowbar; ladder; stepladder; toolbox
workbench; vice; spirit level; tape measure; nail gun; staple gun; glue gun; soldering iron; axe; hatchet
pickaxe; shovel; spade; rake; hoe; pitchfork; trowel; wheelbarrow; lawnmower; hedge trimmer; chainsaw
leaf blower; watering can; hosepipe; sprinkler; flowerpot; window box; hanging basket; bird table; birdbath
greenhouse; compost bin; water butt; garden gnome; deckchair; sun lounger; parasol; hammock; trellis
beehive; scarecrow; paving slab; fence post; garden gate; swing; slide; sandpit; seesaw; trampoline
paddling pool; treehouse; tent; sleeping bag; frying pan; saucepan; wok; casserole dish; baking tray
cake tin; rolling pin; whisk; ladle; spatula; sieve; colander; grater; peeler; corkscrew; tin opener
bottle opener; chopping board; bread knife; teaspoon; tablespoon; butter dish; sugar bowl; milk jug; teapot
coffee pot; coffee machine; toaster; blender; food mixer; microwave; dishwasher; freezer; pressure cooker
rice cooker; waffle iron; salad bowl; egg cup; egg timer; napkin; tablecloth; tea towel; oven glove; apron
lunch box; thermos flask; cool box; picnic basket; wine glass; tumbler; saucer; cake stand; pepper mill
salt cellar; garlic press; pie dish; jam jar; biscuit tin; bread bin; fruit bowl; measuring jug; funnel
kitchen scale; skewer; straw; chopstick; tray; trolley; bucket; mop; broom; dustpan; brush; sponge; duster
vacuum cleaner; washing machine; tumble dryer; iron; ironing board; washing line; clothes peg
laundry basket; coat hanger; bin; dustbin; plunger; doormat; umbrella stand; coat rack; shoe rack; wardrobe
bedside table; bookcase; cupboard; cabinet; sideboard; stool; bar stool; bench; armchair; rocking chair
high chair; footstool; beanbag; cot; cradle; bunk bed; mattress; pillow; duvet; blanket; quilt; cushion; rug
carpet; curtain; blind; lampshade; candle; candlestick; chandelier; vase; picture frame; painting; poster
ornament; piggy bank; snow globe; jewellery box; alarm clock; grandfather clock; radio; television
remote control; record player; loudspeaker; microphone; camera; tripod; video camera; projector; laptop
tablet; keyboard; printer; scanner; monitor; hard drive; memory stick; charger; battery; plug; cable
extension lead; adaptor; light bulb; torch; lantern; fuse; doorbell; smoke alarm; thermostat; radiator
boiler; fan; heater; fire extinguisher; first-aid box; thermometer; barometer; telescope; microscope
magnifying glass; compass; calculator; abacus; typewriter; sewing machine; loom; spinning wheel
knitting needle; needle; thimble; button; zip; pincushion; ribbon; bow; badge; brooch; necklace; bracelet
ring; earring; locket; crown; tiara; wig; mask; cloak; jacket; raincoat; anorak; cardigan; jumper; waistcoat
blazer; blouse; T-shirt; vest; skirt; kilt; nightdress; dressing gown; swimsuit; wetsuit; tracksuit; uniform
wedding dress; suit; tie; bow tie; scarf; shawl; glove; mitten; belt; slipper; sandal; boot; wellington boot
trainer; football boot; high heel; shoelace; cap; beret; bobble hat; top hat; straw hat; helmet
handkerchief; umbrella; walking stick; crutch; wheelchair; hearing aid; handbag; purse; wallet; rucksack
suitcase; trunk; briefcase; shopping bag; basket; hamper; crate; barrel; sack; parcel; envelope; stamp
postcard; birthday card; invitation; newspaper; magazine; diary; notebook; dictionary; atlas; novel
cookbook; comic; album; calendar; leaflet; brochure; ticket; passport; library card; bank card; receipt
cheque; invoice; contract; certificate; diploma; prescription; recipe; crossword; jigsaw; chessboard; dice
playing card; domino; marble; kite; yo-yo; spinning top; skipping rope; doll; doll's house; teddy bear
puppet; toy car; toy soldier; model plane; train set; rocking horse; building block; balloon; whistle
water pistol; catapult; boomerang; frisbee; hula hoop; pogo stick; skateboard; scooter; roller skate
ice skate; sledge; ski; ski pole; snowboard; surfboard; paddle; oar; canoe; kayak; dinghy; rowing boat
sailing boat; speedboat; raft; barge; ferry; yacht; submarine; anchor; lifebelt; life jacket; fishing rod
fishing net; football; tennis racket; tennis ball; golf club; golf ball; cricket bat; baseball glove
hockey stick; basketball; rugby ball; shuttlecock; ping-pong table; dartboard; dart; snooker cue
bowling ball; boxing glove; punchbag; dumbbell; exercise bike; treadmill; rowing machine; yoga mat; goalpost
trophy; medal; stopwatch; hurdle; javelin; climbing rope; carabiner; saddle; horseshoe; stirrup; piano
guitar; violin; cello; double bass; flute; clarinet; oboe; bassoon; trumpet; trombone; tuba; saxophone; drum
tambourine; triangle; xylophone; harp; banjo; ukulele; accordion; mouth organ; recorder; church organ
metronome; music stand; gong; van; lorry; tractor; taxi; motorbike; moped; tricycle; unicycle; tandem
caravan; campervan; trailer; minibus; tram; ambulance; fire engine; bulldozer; crane; digger; forklift
combine harvester; plough; cement mixer; helicopter; plane; glider; hot-air balloon; rocket; pram; pushchair
car seat; spare tyre; steering wheel; windscreen; windscreen wiper; number plate; headlight; wing mirror
bumper; bonnet; car boot; seat belt; gearstick; handlebar; bicycle pump; bike lock; bell; pedal; inner tube
jack; petrol can; roof rack; parking ticket; road sign; traffic cone; traffic light; lamp post
parking meter; postbox; phone box; park bench; statue; fountain; flagpole; flag; banner; tap; sink; bath
shower; toilet; toilet seat; towel rail; towel; flannel; soap dish; toothbrush; hairbrush; comb; hairdryer
razor; nail file; lipstick; bathroom cabinet; shower curtain; bath mat; rubber duck; hot-water bottle; wall
roof; floor; ceiling; chimney; fireplace; mantelpiece; staircase; banister; landing; attic; cellar; balcony
porch; garage; shed; conservatory; gutter; drainpipe; letter box; door handle; lock; hinge; padlock; bolt
latch; keyhole; doorstep; window sill; skylight; floorboard; tile; brick; plank; beam; pipe; light switch
socket; hook; screw; nail; drawing pin; paper clip; stapler; hole punch; ruler; rubber; pencil sharpener
pencil case; felt-tip pen; fountain pen; crayon; paintbrush; easel; canvas; whiteboard; blackboard; globe
folder; ring binder; clipboard; filing cabinet; in-tray; wastepaper basket; rubber stamp; photocopier
shredder; till; shop counter; vending machine; cash machine; slot machine; jukebox; turnstile; lift
escalator; conveyor belt; generator; pump; engine; motor; propeller; windmill; water wheel; wind chime
weathervane; sundial; solar panel; satellite dish; aerial; antenna; robot; drone; hamster; rabbit
guinea pig; goldfish; parrot; budgie; canary; tortoise; snake; lizard; kitten; puppy; pony; donkey; cow
calf; goat; pig; lamb; hen; cockerel; duck; goose; turkey; pigeon; ferret; gerbil; stick insect; peacock
llama; camel; birdcage; fish tank; dog basket; cat flap; dog lead; dog collar; kennel; rabbit hutch; apple
pear; orange; banana; lemon; lime; peach; plum; melon; pineapple; coconut; mango; strawberry; cherry; egg
potato; carrot; onion; tomato; cucumber; cabbage; cauliflower; pumpkin; pepper; aubergine; courgette
lettuce; leek; turnip; beetroot; mushroom; sandwich; burger; sausage; pizza; pie; pancake; waffle; omelette
cake; birthday cake; bun; muffin; doughnut; croissant; bagel; biscuit; scone; pretzel; lollipop; ice lolly
chocolate bar; walnut; chestnut; pine cone; acorn; seashell; pebble; fossil; feather; bone; antler; twig
log; branch; leaf; rose; tulip; sunflower; daffodil; cactus; orchid; fern; bonsai tree; Christmas tree
apple tree; oak; hedge; bush; bouquet; wreath; snowman; sandcastle; skeleton; crystal ball; magic wand
broomstick; sword; shield; cannon; treasure chest; gold coin; banknote; diamond; pearl; magnet; prism
hourglass; bird feeder; nest; nesting box; cobweb; wasps' nest; mousetrap; fly swatter; mosquito net
candle holder; lighter; ashtray; snuffbox; music box; cuckoo clock; fridge magnet; keyring; penknife
"""
)

STUFF = lines(
    """
bread; milk; butter; cheese; sugar; salt; flour; rice; pasta; coffee; tea; water; juice; beer; wine
lemonade; soup; meat; bacon; ham; chicken; fish; fruit; salad; honey; jam; marmalade; mustard; ketchup
mayonnaise; vinegar; olive oil; yoghurt; cream; ice cream; chocolate; toffee; porridge; cereal; gravy
custard; jelly; dough; yeast; cinnamon; garlic; ginger; parsley; basil; spinach; broccoli; sweetcorn
popcorn; candyfloss; chewing gum; petrol; diesel; engine oil; gas; coal; firewood; charcoal; paint; varnish
glue; plaster; cement; concrete; gravel; sand; mud; clay; soil; compost; grass; hay; straw; snow; ice; rain
dust; dirt; rubbish; litter; smoke; steam; paper; cardboard; wrapping paper; sticky tape; string; rope
thread; wool; cotton; silk; leather; velvet; lace; denim; fabric; wallpaper; glass; plastic; rubber; metal
copper; gold; silver; wood; furniture; luggage; equipment; jewellery; make-up; perfume; soap; shampoo
toothpaste; shaving foam; sun cream; medicine; cough syrup; ointment; bleach; washing powder
washing-up liquid; money; cash; change; mail; homework; paperwork; music; washing; shopping; camping gear
fishing tackle; cat litter; dog food; birdseed; fertiliser; weedkiller; antifreeze; putty; scissors
trousers; jeans; shorts; pyjamas; tights; leggings; overalls; dungarees; glasses; sunglasses; goggles
binoculars; headphones; earrings; gloves; socks; shoes; slippers; boots; curtains; pliers; tweezers
nail clippers; shears; tongs; scales; nails; screws; batteries; candles; matches; stamps; flowers; seeds
leaves; eggs; nuts; crisps; biscuits; grapes; peas; beans; lentils; noodles; raisins; sweets; clothes
groceries; leftovers; spices; crumbs; toys; tools; handcuffs; stilts; roller skates; drums; bagpipes
"""
)

ROLES = lines(
    """
mother; father; sister; brother; son; daughter; husband; wife; uncle; aunt; cousin; nephew; niece
grandmother; grandfather; grandson; granddaughter; great-aunt; great-uncle; stepmother; stepfather
stepsister; stepbrother; stepson; stepdaughter; half-brother; half-sister; mother-in-law; father-in-law
sister-in-law; brother-in-law; son-in-law; daughter-in-law; godmother; godfather; godson; goddaughter
twin brother; twin sister; fiancé; fiancée; boyfriend; girlfriend; partner; ex-husband; ex-wife; friend
best friend; old friend; pen friend; neighbour; flatmate; housemate; room-mate; lodger; landlord; landlady
tenant; guest; host; boss; manager; supervisor; colleague; assistant; secretary; receptionist; apprentice
trainee; intern; employee; client; customer; business partner; accountant; bookkeeper; lawyer; solicitor
judge; notary; consultant; estate agent; insurance agent; bank clerk; cashier; shop assistant; shopkeeper
greengrocer; butcher; baker; fishmonger; florist; chemist; hairdresser; barber; tailor; dressmaker; cobbler
jeweller; watchmaker; locksmith; plumber; electrician; carpenter; joiner; builder; bricklayer; roofer
plasterer; painter; decorator; glazier; mechanic; engineer; architect; surveyor; gardener; farmer; shepherd
beekeeper; forester; gamekeeper; vet; groom; jockey; doctor; nurse; midwife; dentist; surgeon; optician
physiotherapist; psychologist; therapist; carer; childminder; nanny; babysitter; cleaner; cook; chef; waiter
waitress; barman; barmaid; caterer; caretaker; janitor; porter; doorman; security guard; night watchman
lifeguard; firefighter; police officer; detective; traffic warden; soldier; sailor; captain; pilot
flight attendant; bus driver; taxi driver; lorry driver; train driver; ticket inspector; postman; courier
milkman; window cleaner; chimney sweep; dustman; teacher; headmistress; headmaster; lecturer; professor
tutor; student; classmate; pupil; schoolfriend; librarian; coach; trainer; referee; goalkeeper; teammate
team captain; bandmate; drummer; pianist; guitarist; violinist; singer; conductor; choirmaster
piano teacher; driving instructor; dancer; actor; actress; director; producer; photographer; journalist
editor; author; poet; translator; interpreter; artist; sculptor; potter; designer; illustrator; programmer
scientist; mayor; councillor; minister; ambassador; vicar; priest; rabbi; imam; nun; monk; organist
undertaker; tour guide; travel agent; magician; clown; ventriloquist; fortune teller; juggler; baby; toddler
teenager; bridesmaid; best man; witness; passenger; patient; volunteer; treasurer; chairwoman; pensioner
hitchhiker; stranger
"""
)

BODIES = lines(
    """
the council; the bank; the school; the hospital; the police; the post office; the library; the university
the government; the company; the factory; the bakery on the corner; the fire brigade; the tax office
the town hall; the museum; the theatre; the cinema; the gym; the swimming pool; the church; the mosque
the synagogue; the parish council; the nursery; the primary school; the night school; the driving school
the music school; the art college; the language school; the dance school; the job centre
the employment agency; the housing association; the estate agency; the building society
the insurance company; the gas company; the electricity company; the water board; the phone company
the internet provider; the bus company; the railway; the airline; the ferry company; the taxi firm
the removal firm; the car hire firm; the garage; the petrol station; the dry cleaner's; the launderette
the hairdresser's; the butcher's; the chemist's; the health centre; the dental practice; the eye clinic
the blood bank; the animal shelter; the vet's; the zoo; the botanical garden; the football club
the tennis club; the rowing club; the chess club; the choir; the orchestra; the brass band; the drama group
the book club; the scouts; the youth club; the allotment society; the local history society
the charity shop; the food bank; the Red Cross; the trade union; the court; the embassy; the consulate
the passport office; the registry office; the land registry; the customs office; the army; the navy
the coastguard; the weather service; the local paper; the radio station; the television company
the publishing house; the printing firm; the advertising agency; the law firm; the design studio
the software company; the start-up next door; the brewery; the dairy; the sawmill; the shipyard
the power station; the recycling centre; the garden centre; the furniture shop; the toy shop; the bookshop
the supermarket; the corner shop; the department store; the market hall; the pizzeria
the Chinese restaurant; the pub by the river; the café at the station; the hotel; the youth hostel
the campsite; the travel agency; the care home; the residents' association; the parents' committee
the lottery; the stables down the lane; the shoe repair shop; the letting agency; the circus; the yacht club
"""
)

SPOTS = lines(
    """
at home; at work; at school; at the library; at the station; at the airport; at the bus stop; at the bank
at the post office; at the supermarket; at the market; at the dentist's; at the hairdresser's
at the doctor's; at the gym; at the pool; at the beach; at the lake; at the zoo; at the cinema
at the theatre; at the museum; at the office; at the factory; at the garage; at the petrol station
at the traffic lights; at the crossroads; at the roundabout; at the level crossing; at the front door
at the back door; at the garden gate; at the kitchen table; at the checkout; at the counter; at the bar
at the reception desk; at the top of the stairs; at the foot of the bed; at the bottom of the garden
at the end of the corridor; at the end of the street; at the edge of the forest; at the far end of the pier
at the university; at the town hall; at the campsite; at the harbour; at the riding school
at the flea market; at the garden centre; at the recycling centre; at the launderette; at the bakery
at the butcher's; at the chemist's; at the wedding; at the funeral; at the party; at the Christmas market
at the tennis club; at the skating rink; at a friend's house; at grandma's; at a hotel in Leeds
at the office party; in the kitchen; in the garden; in the bathroom; in the bedroom; in the living room
in the hall; in the cellar; in the attic; in the garage; in the shed; in the loft; in the car; in the park
in the street; in the car park; in the town centre; in the city; in the country; in the village
in the mountains; in the forest; in the woods; in the field; in the hospital; in the waiting room
in the canteen; in the meeting room; in the lift; in the stairwell; in the lobby; in the classroom
in the playground; in the gym hall; in the changing room; in the laundry room; in the greenhouse
in the vegetable patch; in the flower bed; in the hedge; in the pond; in the barn; in the stable
in the hayloft; in the hen house; in the tent; in the caravan; in the bath; in the shower; in bed
in the wardrobe; in the top drawer; in the bottom drawer; in the fridge; in the freezer; in the oven
in the cupboard; in a shoebox; in the corner; in the front row; in the back row; in the middle of the road
in the dining car; in the back of the van; in the boot of the car; in the glove compartment; in the queue
in the lost property office; in the school office; in the toy shop; in the shop window; in the staff room
in the church; in the churchyard; in the pub; in the café; in the beer garden; in Spain; in Glasgow
in the capital; in the old town; in the suburbs; in the desert; in the jungle; in a cave; in a hotel room
in a tiny flat; in the courtyard; in the alley; in the gutter; in the ditch; in the bushes; in the sandpit
in the rain; in the sun; in the shade; in the dark; in the snow; in the mud; in the fog; in the doorway
in the conservatory; on the table; on the floor; on the sofa; on the chair; on the shelf; on the window sill
on the wall; on the roof; on the balcony; on the terrace; on the doorstep; on the stairs; on the landing
on the ground floor; on the third floor; on the top floor; on the bus; on the train; on the tram
on the plane; on the ferry; on the platform; on the motorway; on the pavement; on the bridge; on the corner
on the beach; on the island; on the farm; on the allotment; on the hill; on the football pitch
on the tennis court; on the ice; on the ski slope; on the stage; on the bench; on the lawn
on the washing line; on the bonnet of the car; on the mantelpiece; on the top shelf; on the bedside table
on the desk; on the notice board; on the internet; on the radio; on television
on the other side of the river; on the back seat; on a narrow boat; on a building site; on the quay
on the jetty; under the bed; under the table; under the sofa; under the sink; under the stairs
under the bridge; under the apple tree; under the doormat; under a blanket; under the floorboards
behind the shed; behind the sofa; behind the door; behind the curtain; behind the school; behind the church
behind the wheel; behind the radiator; behind the counter; behind the bins; next to the church
next to the window; next to the fire; next to the bakery; beside the pool; beside the road; by the river
by the sea; by the fire; by the window; by the canal; near the station; near the hospital; near the border
near the playground; opposite the bank; opposite the school; outside the cinema; outside the shop
outside the town hall; inside the tent; inside the church; in front of the house; in front of the mirror
in front of the television; above the garage; above the shop; above the door; below deck
between the parked cars; between two houses; between the pages of a book; among the tall trees
among the old papers; around the corner; across the street; across the river; along the canal
along the coast; down the road; up in the tree; upstairs; downstairs; next door; abroad; outdoors; indoors
halfway up the hill; just off the main road; two streets away; close to the motorway; far from the village
over the fireplace; on top of the wardrobe; on top of the fridge; against the wall
at the very back of the cupboard
"""
)

PAST_TIMES = lines(
    """
yesterday; last week; last night; this morning; last month; last year; last summer; last winter
two days ago; a week ago; an hour ago; five minutes ago; three weeks ago; ten years ago; a month ago
a long time ago; ages ago; the other day; the day before yesterday; yesterday morning; yesterday evening
yesterday afternoon; last Monday; last Tuesday; last weekend; last spring; last autumn; last Christmas
at Easter; on Friday; on Wednesday night; on Thursday morning; on Saturday afternoon; on Sunday
at the weekend; in March; in 1998; in 2015; in the nineties; in the holidays; during the war; during lunch
during the night; before breakfast; after lunch; after dinner; at midnight; at six this morning
at half past three; on the first of May; on New Year's Eve; on my birthday; earlier today; just now
a moment ago; a fortnight ago; once; years ago; half an hour ago; at the start of the month; in the end
a couple of days ago; late last night; early this morning; at the last minute; one day in June
the night before last; over the summer; the week before last; right after school
"""
)

PRESENT_TIMES = lines(
    """
every day; every week; every morning; every evening; every night; every month; every year; every summer
every Sunday; every other week; every other day; every few days; every two hours; on Sundays; on Mondays
on weekdays; at weekends; on Friday nights; on Saturday mornings; on Tuesday afternoons; in the mornings
in the evenings; in the afternoons; at night; in summer; in winter; in spring; in autumn; in August
at Christmas; at lunchtime; at breakfast; before work; after work; after school; before bed; after dinner
during the holidays; once a week; twice a week; three times a day; four times a year; once a month
twice a year; once in a while; now and then; from time to time; most days; most evenings; all the time
all day long; all year round; day and night; first thing in the morning; last thing at night; at six o'clock
at half past seven; around noon; these days; nowadays; at the moment; on rainy days; on warm evenings
on public holidays; on birthdays; on the first of the month; several times a week; every now and again
in the school holidays
"""
)

FUTURE_TIMES = lines(
    """
tomorrow; next week; tonight; next month; next year; next summer; next winter; this evening; this afternoon
this weekend; the day after tomorrow; tomorrow morning; tomorrow evening; tomorrow afternoon; tomorrow night
next Monday; next Tuesday; next Friday; next weekend; next spring; next autumn; on Wednesday; on Thursday
on Saturday; on Sunday morning; in an hour; in five minutes; in ten minutes; in a week; in two weeks
in three days; in a month; in a few years; in a moment; in half an hour; in the new year; in May; in October
in the spring; in the summer holidays; soon; very soon; later; later today; later this week; one day
one of these days; some day; before long; sooner or later; at Christmas; at six tonight; at noon tomorrow
at the end of the month; at the end of the year; by Friday; by the end of the week; before the weekend
after the holidays; after lunch; after the summer; next Thursday; within a week; as soon as possible
on the tenth of June; on New Year's Day; a week on Saturday; two weeks from now; this time next year
any minute now
"""
)

MEASURES = lines(
    """
the rent = N euros, N a month, N pounds; my salary = N euros, N a month, N a year
the bus fare = N cents, N pence, N euros; the water level = N centimetres, N metres, N inches
the temperature in the greenhouse = N degrees, N degrees Celsius, N
the price of petrol = N a litre, N cents, N pence; the price of bread = N a loaf, N cents, N euros
the price of a haircut = N euros, N pounds, N dollars; the price of a ticket = N euros, N pounds, N each
the price of coffee = N a cup, N a kilo, N euros
the price of the house = N euros, N thousand, N thousand pounds
the price of gold = N an ounce, N dollars, N a gram; the price of eggs = N a dozen, N cents each, N euros
the electricity bill = N euros, N a month, N a quarter; the gas bill = N pounds, N a month, N a year
the phone bill = N a month, N euros, N pounds; the water bill = N a year, N euros, N a quarter
the heating costs = N a month, N euros, N a winter; the gym membership = N a month, N a year, N euros
the club fee = N a year, N euros, N pounds; the parking fee = N an hour, N a day, N euros
the entrance fee = N euros, N each, N per person; the tuition fees = N a term, N a year, N pounds
the hourly wage = N euros, N an hour, N pounds an hour; my pension = N a month, N a week, N euros
my pocket money = N a week, N euros, N pounds a week; my savings = N euros, N pounds, N dollars
my debts = N euros, N pounds, N thousand; my weight = N kilos, N stone, N pounds
my pulse = N, N beats a minute, N beats; my temperature = N degrees, N, N degrees Celsius
my blood pressure = N, N over eighty, N over ninety; my working hours = N a week, N hours, N hours a week
my screen time = N hours a day, N minutes, N hours; my running time = N minutes, N seconds, N hours
the interest rate = N per cent, N percent, N points; the tax rate = N per cent, N percent, N in a hundred
the inflation rate = N per cent, N percent, N points
the unemployment rate = N per cent, N percent, N in a thousand
the exchange rate = N cents, N to the pound, N to the euro
the speed limit = N, N miles an hour, N kilometres an hour
the temperature outside = N degrees, N degrees Celsius, N below zero
the temperature of the bath = N degrees, N degrees Celsius, N
the humidity in the cellar = N per cent, N percent, N
the wind speed = N knots, N miles an hour, N kilometres an hour; the tyre pressure = N bar, N psi, N
the battery level = N per cent, N percent, N bars
the oil level in the tank = N litres, N centimetres, N per cent
the snow depth = N centimetres, N inches, N metres; the number of visitors = N, N a day, N people
the number of pupils = N, N children, N a class; the number of members = N, N people, N in all
the number of accidents = N, N a year, N a month; the number of bees in the hive = N, N thousand, N bees
the population of the village = N, N people, N inhabitants; the attendance = N, N people, N per cent
the waiting time = N minutes, N hours, N weeks; the travel time = N minutes, N hours, N hours each way
the delivery time = N days, N weeks, N working days; the class size = N, N pupils, N children
the cost of the repair = N euros, N pounds, N dollars; the milk yield = N litres, N litres a day, N gallons
the vet's bill = N euros, N pounds, N a visit; the height of the hedge = N metres, N centimetres, N feet
the train fare = N euros, N pounds, N each way
"""
)

QUALITIES = lines(
    """
old; new; big; small; long; short; tall; heavy; light; clean; dirty; wet; dry; hot; cold; warm; cool; red
blue; green; yellow; black; white; brown; grey; pink; orange; purple; cheap; expensive; broken; full; empty
open; closed; hard; soft; loud; quiet; fast; slow; strong; weak; thick; thin; wide; narrow; round; square
flat; steep; deep; shallow; high; low; sharp; blunt; smooth; rough; good; bad; nice; beautiful; ugly; pretty
lovely; horrible; awful; wonderful; brilliant; excellent; useless; useful; handy; safe; dangerous; easy
difficult; simple; complicated; strange; odd; weird; normal; ordinary; special; rare; common; famous
popular; modern; old-fashioned; antique; second-hand; brand new; worn out; rusty; dusty; muddy; greasy
sticky; slippery; mouldy; rotten; ripe; unripe; raw; burnt; stale; fresh; frozen; sour; sweet; bitter; salty
spicy; bland; juicy; crunchy; tough; tender; fragile; sturdy; solid; hollow; wobbly; loose; tight; crooked
straight; bent; cracked; chipped; scratched; dented; torn; frayed; faded; stained; spotless; shiny; dull
bright; dark; pale; colourful; striped; spotted; checked; see-through; fluffy; furry; hairy; bald; curly
silky; prickly; scratchy; stiff; bendy; stretchy; waterproof; fireproof; airtight; bright green; dark blue
light brown; pale yellow; snow white; pitch black; blood red; half empty; half full; half finished
half asleep; wide open; wide awake; dirt cheap; red hot; ice cold; boiling hot; freezing cold; soaking wet
bone dry; razor sharp; sky blue; bottle green; very old; quite heavy; a bit loose; far too big
far too small; slightly damp; surprisingly light; terribly noisy; almost new; completely useless
hardly used; badly made; well made; hand-made; home-made; rather plain; a little crooked; out of order
out of date; up to date; out of tune; out of reach; out of stock; out of breath; in good shape; in bad shape
on fire; for sale; on loan; upside down; inside out; back to front; as good as new; happy; sad; angry; tired
hungry; thirsty; ill; well; healthy; busy; free; late; early; ready; alone; afraid; worried; nervous; calm
proud; ashamed; jealous; lonely; bored; excited; surprised; shocked; disappointed; grateful; curious
confused; sleepy; drunk; sober; dizzy; seasick; homesick; pregnant; married; single; divorced; retired
unemployed; rich; poor; young; elderly; friendly; kind; polite; rude; honest; dishonest; generous; stingy
greedy; modest; vain; shy; bold; brave; cowardly; clever; stupid; wise; silly; funny; boring; serious
strict; gentle; cruel; patient; impatient; stubborn; lazy; hard-working; reliable; unreliable; punctual
careful; careless; clumsy; skilful; tidy; untidy; moody; cheerful; grumpy; bossy; nosy; chatty; talkative
sarcastic; superstitious; forgetful; absent-minded; short-sighted; left-handed; deaf; hoarse; sunburnt; fit
slim; plump; handsome; elegant; scruffy; smelly; noisy; harmless; poisonous; venomous; tame; wild; fierce
lively; sick; injured; lame; dead; alive; missing; lost; stolen; hidden; visible; invisible; magnetic
electric; wooden; plastic; golden; silver; leather; woollen; knitted; inflatable; foldable; portable
adjustable; rechargeable; disposable; valuable; worthless; priceless; unique; identical; enormous; huge
tiny; gigantic; bulky; compact; lightweight; oval; triangular; pointed; curved; lopsided; symmetrical
transparent; sealed; locked; blocked; clogged; leaky; draughty; cosy; roomy; cramped; luxurious; shabby
gaudy; plain; quaint; spooky; haunted; gloomy; peaceful; reasonable; suspicious; precious; peculiar; fussy
picky; tone-deaf; overweight
"""
)

MANNERS = lines(
    """
by bike; by car; by bus; by train; by boat; by plane; by taxi; by post; by email; by phone; by hand
by mistake; by accident; by chance; by heart; by candlelight; by torchlight; on foot; on horseback
on tiptoe; on purpose; on time; on credit; on crutches; on a whim; on the spur of the moment; on skis
on all fours; in a hurry; in a rush; in secret; in silence; in private; in public; in person; in advance
in cash; in pencil; in ink; in capital letters; in tears; in a good mood; in a bad mood; in a loud voice
in a low voice; in a whisper; in a panic; in one go; in small steps; in two minutes; in no time; in French
in slippers; in bare feet; in vain; in alphabetical order; in great detail; in pairs; in turns
with great care; with pleasure; with difficulty; with ease; with both hands; with one hand; with a smile
with a sigh; with a shrug; with a hammer; with a stick; with a knife; with a cloth; with soap and water
with shaking hands; with eyes closed; with help from next door; with enthusiasm; with patience
with gritted teeth; with a heavy heart; with relief; without a word; without help; without asking
without looking; without a map; without gloves; without a licence; without permission; without thinking
without much hope; without delay; without a sound; without any fuss; without breakfast; without a receipt
without complaining; for free; for fun; for a bet; for practice; for a laugh; for the first time; for good
for hours; for half the price; at full speed; at a leisurely pace; at great expense; at the top of the voice
at random; at a discount; at the double; under protest; under pressure; under cover of darkness
under a false name; against the clock; against all advice; out of habit; out of boredom; out of curiosity
out of pity; out of spite; over the phone; over the internet; through the window; like a professional
like a child; as a joke; as a favour; as a precaution; as a team; very slowly; quite quickly; rather badly
extremely well; all alone; step by step; bit by bit; one by one; little by little; side by side; arm in arm
hand in hand; again and again; back and forth; once again; at long last; from memory; from a distance
from scratch; off the cuff; half asleep; far too early; much too late; by ear; free of charge
together with a friend; together as a family
"""
)

REASONS = lines(
    """
it was raining; it was snowing; it was too hot; it was too cold; it was getting dark; it was too late
it was too early; it was too expensive; it was free; it was on sale; it was broken; it was a public holiday
it was a Sunday; it was the last day of term; it was cheaper that way; it was the only one left
it was raining cats and dogs; it was too heavy; it was urgent; it was far too loud; it was very windy
it was foggy; it was no longer needed; it was in the way; it was getting old; it was a surprise
it was faster that way; it was out of stock; there was no time; there was nothing else to do
there was no other way; there was a sale; there was a strike; there was a storm; there was a power cut
there was a long queue; there was ice on the road; there was a traffic jam; there was nobody at home
there was no milk left; there was a spider in it; there was a hole in the roof; there was too much noise
there was no signal; there was a mistake in the bill; there was a crack in it; there was no room left
there was no hot water; there was a gas leak; there was a fire next door; the road was icy
the road was closed; the bridge was closed; the shop was closed; the shops were about to close
the bus was late; the bus was full; the last bus was gone; the train was cancelled; the train was on time
the car was in the garage; the car did not start; the battery was flat; the battery was dead
the brakes were worn; the tyre was flat; the tank was empty; the engine was too hot
the engine made a strange noise; the lift was out of order; the stairs were too steep; the door was locked
the door was jammed; the key was missing; the key did not fit; the lock was rusty; the lights were out
the light was on; the bulb was broken; the fuse was blown; the heating was off; the window was open
the window was broken; the roof leaked; the tap dripped; the pipe was blocked; the sink was blocked
the boiler was broken; the oven was still hot; the fridge was empty; the fridge was full; the milk was sour
the bread was stale; the soup was cold; the food was too spicy; the coffee was cold; the cake was burnt
the eggs were off; the fish smelled bad; the meat was still raw; the bill was wrong; the price was right
the price went up; the rent was too high; the money was gone; the tickets were sold out
the tickets were cheap; the film was boring; the film was in Italian; the book was due back
the music was too loud; the neighbours complained; the neighbours were asleep; the neighbours were away
the baby was asleep; the baby was crying; the children were hungry; the children were bored
the children were at school; the dog was ill; the dog barked all night; the dog needed a walk
the cat was stuck; the cat was hungry; the hens were hungry; the horse was lame; the vet advised it
the doctor said so; the doctor was busy; the doctor was on holiday; the dentist was fully booked
the teacher was ill; the teacher insisted; the boss was away; the boss was angry; the boss asked for it
the landlord refused; the landlord wanted to sell; the contract ran out; the guests were late
the guests were already there; the visitors were tired; the customer complained; the customers were unhappy
the police asked questions; the police closed the street; the deadline was near; the exam was too hard
the exam was the next day; the meeting was short; the meeting was postponed; the meeting went on for hours
the parcel never arrived; the parcel was too big; the address was wrong; the letter got lost
the letter was in Greek; the stamp was missing; the printer was out of ink; the paper was too thin
the computer crashed; the phone rang; the line was busy; the signal was weak; the screen was cracked
the password was wrong; the website was down; the map was out of date; the sign was hard to read
the instructions were unclear; the weather was fine; the weather was awful; the sun was out
the sun was too strong; the wind was too strong; the river was too high; the lake was frozen
the snow was too deep; the ground was frozen; the grass was too wet; the grass was too long
the apples were ripe; the flowers needed water; the plants were dying; the tree was rotten
the paint was still wet; the glue was dry; the wood was rotten; the rope was too short
the ladder was too short; the box was too heavy; the bag was torn; the suitcase was full
the shoes were too tight; the trousers were too long; the dress was too expensive; the zip was stuck
the button was loose; the coat was too warm; the sofa was too wide for the door; the mattress was too soft
the chair was wobbly; the table was too small; the room was too dark; the flat was too small
the house was damp; the cellar was full of water; nobody else had time; nobody else wanted it
nobody else was there; nobody answered; nobody knew the way; nobody was looking; nobody said anything
nobody believed the story; everybody else was ill; everybody was tired; everyone else had one
everyone was waiting; someone rang the bell; someone had to do it; someone left the gate open
something smelled odd; something was wrong with it; somebody took the wrong one; time was short
money was tight; winter was coming; school was out; lunch was ready; dinner was not ready
half of it was missing; one of the wheels was loose; the wheel came off; the handle came off
the alarm went off; the whistle blew; the clock was wrong; the last one broke; the old one was worn out
the new one was too small; the size was wrong; the colour was wrong; the quality was poor
the handle was too short; the pump was too loud; the hinge squeaked; a friend recommended it
"""
)

REASONS_NOW = lines(
    """
it is raining; it is snowing; it is too hot; it is too cold; it is getting dark; it is too late
it is too expensive; it is free; it is on sale; it is broken; it is a public holiday; it is healthier
it is cheaper that way; it is good exercise; it is too heavy; it is urgent; it is in the way
it is quieter there; it is a family tradition; it is better than nothing; it saves time; it saves money
it smells nice; it tastes better; it takes too long; it makes too much noise; it costs next to nothing
it keeps the house warm; it looks better that way; there is no time; there is no other way
there is a strike; there is a long queue; there is nobody at home; there is no milk left
there is a hole in it; there is no lift; there is no room left; there is nothing on television
there is too much traffic; there is a wasp in the room; the road is icy; the road is closed
the bridge is closed; the shop is closed; the shop closes at six; the bus is late; the bus is always full
the bus stops right outside; the train is cancelled; the trains are unreliable; the car is in the garage
the car is too small; the battery is flat; the brakes are worn; the tank is empty; the engine is too hot
the lift is out of order; the stairs are too steep; the door is locked; the door sticks; the key is missing
the lock is rusty; the lights are out; the light is better there; the heating is off; the window is open
the window does not close; the roof leaks; the tap drips; the sink is blocked; the boiler is broken
the oven is still hot; the fridge is empty; the milk is sour; the bread is stale; the soup is cold
the food is too spicy; the coffee is cold; the water is too cold; the air is better there; the bill is wrong
the price is right; the rent is too high; the money is gone; the tickets are sold out; the film is boring
the book is due back; the music is too loud; the neighbours complain; the neighbours are asleep
the neighbours are away; the baby is asleep; the baby cries all night; the children are hungry
the children are at school; the children like it; the dog is ill; the dog needs a walk
the dog pulls too hard; the cat is hungry; the cat scratches everything; the hens are hungry
the horse is lame; the doctor says so; the doctor is on holiday; the dentist is fully booked
the teacher insists; the teacher is ill; the boss is away; the boss wants it that way; the landlord refuses
the contract runs out in June; the guests are late; the guests are already here; the customers expect it
the deadline is near; the exam is tomorrow; the meeting is at nine; the pay is good; the pay is poor
the work is hard; the hours are long; the parcel is too big; the address is wrong; the printer is out of ink
the computer is too slow; the phone never stops ringing; the signal is weak; the screen is cracked
the website is down; the map is out of date; the instructions are unclear; the weather is fine
the weather is awful; the sun is out; the sun is too strong; the wind is too strong; the river is too high
the lake is frozen; the ground is frozen; the grass is too long; the apples are ripe; the flowers need water
the plants are dying; the tree is rotten; the paint is still wet; the glue is not dry yet
the rope is too short; the box is too heavy; the bag is torn; the suitcase is full; the shoes are too tight
the zip is stuck; the coat is too warm; the mattress is too soft; the room is too dark
the flat is too small; the house is damp; the cellar is full of water; nobody else has time
nobody else wants it; nobody knows the way; nobody ever answers; everybody else is ill; everyone is waiting
everyone else has one; someone has to do it; something is wrong with it; time is short; money is tight
winter is coming; lunch is ready; the old one is worn out; the new one is too small; the colour is wrong
the alarm keeps going off; the clock is wrong; one of the wheels is loose; half of it is missing
parking is free there
"""
)

CONDITIONS = lines(
    """
it rains; it snows; it gets dark; it gets cold; it stops raining; it gets too hot; it freezes at night
it is sunny; it is foggy; the sun shines; the sun goes down; the sun comes up; the bell rings
the phone rings; the alarm goes off; the doorbell rings; the bus is late; the bus comes; the train stops
the train is cancelled; the parcel arrives; the letter comes; the post arrives; the guests arrive
the guests leave; the doctor calls; the plumber comes; the electrician turns up; the baby wakes up
the baby falls asleep; the baby cries; the children are in bed; the children come home
the children are at school; the dog barks; the dog is hungry; the cat wants to come in
the neighbours complain; the neighbours are away; the shop opens; the shop closes; the bank closes
the film starts; the film ends; the lesson is over; the meeting is over; the meeting ends early
the exam is over; the holidays begin; term starts; school is out; work is over; dinner is ready
lunch is ready; the kettle boils; the water boils; the oven is hot; the cake is done; the bread is ready
the milk runs out; the soup is cold; the fridge is empty; the washing is dry; the paint is dry
the glue dries; the light goes on; the light turns red; the light turns green; the lights go out
the power goes off; the battery is flat; the tank is empty; the engine starts; the car breaks down
the tyre is flat; the lift is out of order; the door is locked; the door opens; the window is open
the roof leaks; the tap drips; the heating comes on; the boiler breaks down; the computer crashes
the printer runs out of paper; the website is down; the signal is weak; the price goes down
the price goes up; the rent goes up; the money arrives; the bill comes; the contract runs out
the weather is good; the weather changes; the wind drops; the wind gets stronger; the rain stops
the snow melts; the lake freezes; the tide goes out; the tide comes in; the river rises; the leaves fall
the apples are ripe; the flowers open; spring comes; winter comes; the clocks change; the music stops
the whistle blows; the referee is not looking; the curtain goes up; the boss is away; the boss agrees
the landlord agrees; the teacher is ill; the police come; the ambulance arrives; the results are in
the news gets out; someone knocks; someone calls; somebody asks; nobody answers; nobody is looking
nobody else is there; everyone is ready; everything goes well; something goes wrong; time runs out
there is enough time; there is no queue; there is a sale; there is a storm; there is a full moon
there is any left; there is nothing on television; the coast is clear; the chance comes; the bin is full
the moon is out; the room is empty; the bath is full
"""
)

GOALS = lines(
    """
save money; save time; surprise the children; get some sleep; get some rest; get some fresh air
catch the bus; catch the early train; buy bread; buy a present; buy a new car; pay the rent; pay the bills
earn some extra money; make a good impression; make room; make new friends; make a cake; make dinner
make sure; make things easier; keep warm; keep fit; keep cool; keep the peace; keep the flies out
keep the noise down; lose weight; stay awake; stay healthy; stay out of trouble; learn English
learn the guitar; pass the exam; pass the time; help a friend; help the neighbours; help out at the farm
look after the baby; look for work; find a job; find a flat; find the way; find out the truth; ask for help
ask for advice; ask for directions; see the doctor; see the sunrise; see the film; see a play
visit a friend; visit the grandparents; meet the new teacher; meet an old friend; pick up a parcel
pick mushrooms; pick up the children; fetch the post; fetch some water; fetch a ladder; walk the dog
feed the cat; feed the hens; water the plants; mow the lawn; clean the windows; clear the drain
mend the roof; mend the fence; fix the tap; change the bulb; reach the top shelf; open the jar
light the fire; put out the fire; cool the soup; dry the washing; air the room; avoid the traffic
avoid an argument; avoid the rain; avoid waste; escape the heat; escape the noise; get away from it all
get there in time; get a better view; get a refund; get a second opinion; get rid of the smell
get the stain out; get over a cold; hide the stain; hide the presents; play a trick; play football
play cards; practise for the concert; prepare for the test; celebrate the birthday; celebrate the new year
say goodbye; say thank you; say sorry; watch the match; watch the birds; read in peace; listen to the radio
listen to the band; have a chat; have a rest; have a look; have some fun; have lunch; cheer up a friend
comfort the baby; scare the birds away; impress the boss; win the prize; win the bet; win the race
beat the record; break the ice; raise money for charity; protest against the plan; vote; sign the contract
collect the keys; hand in the form; return a book; exchange the trousers; try on a dress; sell the house
rent out the room; move closer to the sea; start a business; settle the argument; solve the puzzle
test the brakes; measure the room; check the time; check the oil; charge the phone; print the tickets
post a letter; cross the river; climb the mountain; explore the cave; protect the seedlings
"""
)

TOPICS = lines(
    """
the noise; the weather; the food; the price; the rent; the money; the bill; the traffic; the parking
the neighbours; the children; the dog; the cat; the baby; the family; the wedding; the funeral; the party
the accident; the exam; the test results; the homework; the new teacher; the new timetable; the new boss
the job; the pay; the working hours; the strike; the election; the government; the council; the news
the war; the past; the future; the trip; the flight; the journey; the delay; the luggage; the hotel
the holiday; holidays; food; football; politics; music; films; books; money; work; school; cars; horses
dogs; children; old times; religion; history; art; fashion; gardening; cooking; fishing; stamps; trains
ghosts; dreams; computers; dinosaurs; the stars; life; death; love; the meaning of life; everything
nothing in particular; her knee; his back; her mother; his father; her exam; his job; her new flat
his old car; her boyfriend; his ex-wife; her plans; his debts; her childhood; his time in the army
her first day at school; his driving; her cooking; his snoring; her diet; their divorce; their new house
their holiday; their garden; their neighbours; the garden; the hedge; the fence; the roof; the leak
the damp; the heating; the electricity; the broken lift; the smell; the rubbish; the recycling; the mess
the kitchen; the bathroom; the carpet; the curtains; the colour; the paint; the furniture; the moving date
the lease; the landlord; the contract; the insurance; the tax form; the pension; the loan; the inheritance
the will; the lottery; the stolen bike; the lost key; the missing cat; the burglary; the fire; the flood
the storm; the snow; the heat; the mosquitoes; the wasps; the mice; the spider; the doctor; the hospital
the operation; the medicine; the diet; the vaccination; the toothache; the dentist; the menu; the recipe
the cake; the coffee; the wine; the service; the bus; the buses; the train; the roadworks; the new bridge
the speed limit; the parking ticket; the fine; the match; the score; the referee; the concert; the play
the ending of the film; the book; the painting; the song; the choir; the piano lessons; the photo
the letter; the email; the phone call; the secret; the rumour; the joke; the misunderstanding; the argument
the mistake; the truth; the rules; the dress code; the present; the invitation; the guest list
the seating plan; the meeting; the project; the deadline; the report; the printer; the computer
the password; the website; the phone; the price of petrol; the price of bread; the cost of living
climate change; the moon landing; the royal family; the lost luggage; the school play; the school trip
the swimming lesson; the bullying; the exchange student; the end of term
"""
)

# What kinds of thing there are: how a kind is asked for, and things of it with their article.
KINDS: dict[str, list[str]] = {
    name: lines(items)
    for name, items in (
        (
            "animal/pet/creature",
            """
a goat; a donkey; an alpaca; a hedgehog; a parrot; a tortoise; a ferret; a rabbit; a pony; a duck
a goose; a hamster; a guinea pig; a snake; a cow; two sheep; three hens; a rooster; a pigeon
a budgie; a cat; a dog; a poodle; a greyhound; a mouse; a rat; an owl; a llama; a turtle; a lizard
a fish; a crab; a pig; a mule; a swan
""",
        ),
        (
            "instrument/musical instrument",
            """
a trombone; a cello; an accordion; a harp; a banjo; a ukulele; a flute; a clarinet; an oboe
a fiddle; a violin; a tuba; a mandolin; a saxophone; a xylophone; a set of drums; a harmonica
a bassoon; a guitar; a piano; an organ; a trumpet; a recorder; a zither; bagpipes; a tambourine
a double bass; a French horn
""",
        ),
        (
            "vehicle/means of transport",
            """
a cargo bike; a tractor; a moped; a campervan; a Volvo; a Fiat; a motorbike; a scooter; a tandem
a hatchback; a minibus; a milk van; a jeep; a pickup; a unicycle; a canoe; a rowing boat
a Corolla; a tram; a snowmobile; a taxi; a lorry; a sledge; a quad bike; a convertible
an electric car; a folding bike; an ambulance
""",
        ),
        (
            "home/place to live/building",
            """
a houseboat; a bungalow; a cottage; a caravan; a penthouse; a basement flat; a yurt; a farmhouse
a lighthouse; a log cabin; a terraced house; a villa; a studio flat; a barn; a windmill; a tower
a mobile home; an igloo; a tiny house; a castle; a tent; a treehouse; an old school; a chapel
a duplex
""",
        ),
        (
            "drink",
            """
fennel tea; black coffee; a beer; a glass of milk; cider; lemonade; red wine; oat milk
hot chocolate; tonic water; mint tea; apple juice; a cappuccino; whisky; ginger ale; buttermilk
iced tea; an espresso; sparkling water; kefir; a smoothie; gin; elderflower syrup; tomato juice
mead; cocoa
""",
        ),
        (
            "dish/food/meal",
            """
lentil soup; a lasagne; pancakes; a goulash; dumplings; fish and chips; an omelette; a risotto
sushi; a curry; apple pie; meatballs; a pizza; mashed potatoes; a quiche; ravioli; a stew
scrambled eggs; a burrito; couscous; pea soup; schnitzel; a salad; porridge; paella; noodles
tacos; moussaka; a cheese toast; borscht
""",
        ),
        (
            "cake/dessert",
            """
a red velvet cake; a lemon tart; a carrot cake; brownies; a cheesecake; an apple strudel; tiramisu
a Black Forest cake; muffins; a marble cake; crème brûlée; a plum cake; baklava; doughnuts
a trifle; a rhubarb crumble; macarons
""",
        ),
        (
            "fruit",
            """
cherries; a melon; plums; bananas; quinces; a pineapple; gooseberries; apricots; pears; a mango
figs; grapes; raspberries; oranges; lemons; peaches; blackcurrants; kiwis; apples
""",
        ),
        (
            "vegetable",
            """
leeks; a pumpkin; carrots; beetroot; courgettes; onions; spinach; a cauliflower; peas; beans
radishes; garlic; cucumbers; aubergines; celery; a cabbage; potatoes; parsnips
""",
        ),
        (
            "plant/flower",
            """
tulips; a fern; a cactus; roses; an orchid; lavender; a bonsai; sunflowers; ivy; a geranium; basil
daffodils; a palm; peonies; a rubber plant; snowdrops; dahlias; an aloe; lilies; thyme
""",
        ),
        (
            "tree",
            """
a walnut; a birch; an oak; a cherry tree; a willow; a pear tree; a maple; a lime tree; a fig tree
a spruce; an elm
""",
        ),
        (
            "piece of clothing/garment",
            """
a green dress; a raincoat; woollen socks; a tuxedo; a kilt; a cardigan; a bow tie; dungarees
a straw hat; a scarf; mittens; a leather jacket; a nightgown; a waistcoat; a hoodie; rubber boots
a silk blouse; a kimono; shorts; an anorak; a beanie; a striped jumper; sandals; a wedding dress
""",
        ),
        (
            "tool",
            """
a hammer; a chainsaw; a drill; a spirit level; pliers; a spanner; a screwdriver; a rake
a wheelbarrow; an axe; a crowbar; a soldering iron; a chisel; a handsaw; a shovel; a file; a plane
a ladder; a vice; a pickaxe
""",
        ),
        (
            "piece of furniture/furniture",
            """
a sofa; an armchair; a wardrobe; a bookcase; a desk; a bunk bed; a rocking chair
a chest of drawers; a footstool; a sideboard; a bench; a dining table; a hammock; a cot; a mirror
a stool; a bedside table
""",
        ),
        (
            "machine/appliance/device",
            """
a washing machine; a printer; a toaster; a fridge; a lawnmower; a sewing machine; a dishwasher
a router; a kettle; a coffee machine; a hairdryer; a blender; a tumble dryer; a microwave
a vacuum cleaner; a freezer; a projector; a tablet; a walkie-talkie; a camera; an oven
""",
        ),
        (
            "game/sport",
            """
chess; badminton; poker; water polo; table tennis; backgammon; handball; darts; bowls; volleyball
curling; hide and seek; scrabble; rugby; hockey; dominoes; bridge; snooker; minigolf; cricket
tug of war; go
""",
        ),
        (
            "language",
            """
Estonian; Ewe; Portuguese; Turkish; Basque; sign language; Greek; Latin; Farsi; Welsh; Korean
Swahili; Polish; Hungarian; Catalan; Yiddish; Finnish; Thai; Hebrew; Twi; Danish; Tamil
""",
        ),
        (
            "subject/field",
            """
dentistry; geography; law; marine biology; physics; art; maths; theology; chemistry; nursing
architecture; history; philosophy; computer science; agriculture; mosquitoes; economics
medieval poetry; botany; accounting
""",
        ),
        (
            "illness/ailment",
            """
a cold; hay fever; a broken wrist; measles; a migraine; a sore throat; the flu; tonsillitis
chickenpox; a sprained ankle; a stomach bug; shingles; backache; toothache; an ear infection
asthma; a black eye; appendicitis
""",
        ),
        (
            "metal/material",
            """
copper; oak; enamel; steel; brass; marble; linen; cork; silver; bamboo; tin; leather; velvet
concrete; glass; wool; slate
""",
        ),
        (
            "colour/color/shade",
            """
turquoise; grey; mustard yellow; lilac; beige; dark blue; olive green; crimson; ivory; orange
maroon; teal; pink; white; black
""",
        ),
    )
}

# What is had, done to or made by kind: verbs with the kinds that they take.
OF_KIND: list[tuple[str, str]] = [
    (verb, kind)
    for verb, _, kind in (
        line.partition(": ")
        for line in lines(
            """
keep kept kept keeping: animal; feed fed fed feeding: animal; adopt adopted adopted adopting: animal
walk walked walked walking: animal; find found found finding: animal
photograph photographed photographed photographing: animal; brush brushed brushed brushing: animal
play played played playing: instrument; practise practised practised practising: instrument
tune tuned tuned tuning: instrument; learn learnt learnt learning: instrument
inherit inherited inherited inheriting: instrument; repair repaired repaired repairing: instrument
ride rode ridden riding: vehicle; drive drove driven driving: vehicle; park parked parked parking: vehicle
wash washed washed washing: vehicle; sell sold sold selling: vehicle; hire hired hired hiring: vehicle
crash crashed crashed crashing: vehicle; push pushed pushed pushing: vehicle; own owned owned owning: home
rent rented rented renting: home; buy bought bought buying: home
renovate renovated renovated renovating: home; build built built building: home
share shared shared sharing: home; draw drew drawn drawing: home; drink drank drunk drinking: drink
order ordered ordered ordering: drink; spill spilt spilt spilling: drink
bring brought brought bringing: drink; serve served served serving: drink; sip sipped sipped sipping: drink
like liked liked liking: drink; eat ate eaten eating: dish; cook cooked cooked cooking: dish
warm-up warmed-up warmed-up warming-up: dish; burn burnt burnt burning: dish
order ordered ordered ordering: dish; hate hated hated hating: dish; make made made making: dish
try tried tried trying: dish; bake baked baked baking: cake; make made made making: cake
decorate decorated decorated decorating: cake; buy bought bought buying: cake
pick picked picked picking: fruit; peel peeled peeled peeling: fruit; sell sold sold selling: fruit
buy bought bought buying: fruit; grow grew grown growing: vegetable
chop chopped chopped chopping: vegetable; plant planted planted planting: vegetable
harvest harvested harvested harvesting: vegetable; water watered watered watering: plant
plant planted planted planting: plant; get got got getting: plant; sell sold sold selling: plant
repot repotted repotted repotting: plant; plant planted planted planting: tree
cut-down cut-down cut-down cutting-down: tree; climb climbed climbed climbing: tree
wear wore worn wearing: piece of clothing; knit knitted knitted knitting: piece of clothing
iron ironed ironed ironing: piece of clothing; lose lost lost losing: piece of clothing
buy bought bought buying: piece of clothing; sew sewed sewn sewing: piece of clothing
use used used using: tool; borrow borrowed borrowed borrowing: tool
lend-out lent-out lent-out lending-out: tool; drop dropped dropped dropping: tool
sharpen sharpened sharpened sharpening: tool; need needed needed needing: tool
carry carried carried carrying: piece of furniture; paint painted painted painting: piece of furniture
buy bought bought buying: piece of furniture; move moved moved moving: piece of furniture
sand sanded sanded sanding: piece of furniture; repair repaired repaired repairing: machine
unplug unplugged unplugged unplugging: machine; buy bought bought buying: machine
clean cleaned cleaned cleaning: machine; return returned returned returning: machine
break broke broken breaking: machine; play played played playing: game; learn learnt learnt learning: game
win-at won-at won-at winning-at: game; teach taught taught teaching: game
learn learnt learnt learning: language; speak spoke spoken speaking: language
teach taught taught teaching: language; understand understood understood understanding: language
study studied studied studying: subject; teach taught taught teaching: subject
like liked liked liking: subject; fail failed failed failing: subject; have had had having: illness
catch caught caught catching: illness; get got got getting: illness; use used used using: metal
choose chose chosen choosing: metal; order ordered ordered ordering: metal
choose chose chosen choosing: colour; like liked liked liking: colour
prefer preferred preferred preferring: colour
"""
        )
    )
]
