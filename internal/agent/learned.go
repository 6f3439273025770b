// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/collectorapi"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/replacefile"
	"github.com/waymark-net/waymark/ioam"
)

// learned asks a collector for the names of other nodes, and keeps what it said: the collector may be away, and one
// that began anew hears names only after a while.
type learned struct {
	service.Idle
	*core
	changed chan struct{} // the settings have

	mu               sync.Mutex
	from             *config.NamesFrom // nil: no collector is asked
	collector        config.CollectorURL
	nodes            map[learnedID]learnedNode // that this collector told
	names            *nodenames.Names          // the same, to look up
	since            time.Time                 // the last answer, or when it began to be asked
	why              string                    // there is no answer; "": there is one
	warned           bool                      // the log has that
	answered, failed uint64
}

// learnedID is an id of a node, of 24 or 56 bits.
type learnedID struct {
	id   uint64
	wide bool
}

// learnedNode is a node, and how many answers in a row have lacked it.
type learnedNode struct {
	api.NodeName
	Missing int `json:"missing,omitempty"`
}

const (
	// mostNames bounds an answer in octets, and the file that keeps what was learned.
	mostNames = 16 << 20
	// mostLearned is how many ids have names: of both widths.
	mostLearned = 2 * nodenames.MaxNodes
	// forgottenAfter is how many answers in a row may lack a node: those of a day, if nothing else is set.
	forgottenAfter = 288
	// askTime is how long a question may take.
	askTime = 30 * time.Second
	// firstRetry is when a question without an answer is asked again; it doubles from then on.
	firstRetry = 5 * time.Second
)

var (
	descNamesAsked   = service.Metric("names_questions_total", "Questions to the collector of names-from, by result.", "result")
	descNamesLearned = service.Metric("names_learned", "Node ids that have names from the collector of names-from.")
)

func newLearned(c *core) *learned {
	return &learned{core: c, changed: make(chan struct{}, 1), nodes: map[learnedID]learnedNode{}}
}

// namesFor are the names that the collector of a configuration told.
func (l *learned) namesFor(c *config.Config) *nodenames.Names {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.NamesFrom == nil || c.NamesFrom.Collector != l.collector {
		return nil
	}
	return l.names
}

// savedNames is what is kept for the next agent.
type savedNames struct {
	Collector config.CollectorURL `json:"collector"`
	Nodes     []learnedNode       `json:"nodes"`
}

// Open reads what an earlier agent learned.
func (l *learned) Open() error {
	path := l.options.Instance.NamesFile()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var kept savedNames
	if err == nil && info.Size() > mostNames {
		err = fmt.Errorf("%s has more than %d octets", path, mostNames)
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil {
		l.log.Warn("names that an earlier agent learned are not used", "error", err)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.collector = kept.Collector
	for _, n := range kept.Nodes {
		if id, ok := idOf(&n.NodeName); ok && len(l.nodes) < mostLearned {
			l.nodes[id] = n
		}
	}
	l.lookUp()
	return nil
}

func idOf(n *api.NodeName) (learnedID, bool) {
	switch {
	case n.ID != nil:
		return learnedID{uint64(*n.ID), false}, true
	case n.IDWide != nil:
		return learnedID{uint64(*n.IDWide), true}, true
	}
	return learnedID{}, false
}

// lookUp makes the names of the nodes. The caller holds l.mu.
func (l *learned) lookUp() {
	l.names = nodenames.New()
	for id := range l.nodes {
		n := l.nodes[id]
		l.names.Add(n.Node())
	}
}

// Prepare follows the settings.
func (l *learned) Prepare(p *service.Plan) error {
	want := p.Next.Config.NamesFrom
	p.OnCommit(func() { l.follow(want) })
	return nil
}

func (l *learned) follow(want *config.NamesFrom) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reflect.DeepEqual(want, l.from) && (want != nil || l.collector == "") {
		return // and no file of an earlier agent is left
	}
	l.from, l.since, l.why, l.warned = want, time.Now(), "", false
	if want == nil || want.Collector != l.collector {
		l.nodes, l.names, l.collector = map[learnedID]learnedNode{}, nil, ""
		l.forget()
	}
	if want != nil {
		l.collector = want.Collector
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *learned) forget() {
	if err := os.Remove(l.options.Instance.NamesFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		l.log.Warn("delete the names of other nodes that were learned", "error", err)
	}
}

// Run asks at once, and from then on at intervals.
func (l *learned) Run(ctx context.Context) error {
	for wait := time.Duration(0); ; {
		l.mu.Lock()
		from := l.from
		l.mu.Unlock()
		var next <-chan time.Time
		if from != nil {
			next = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.changed:
			wait = 0
			continue
		case <-next:
		}
		names, err := askNames(ctx, from)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			wait = l.unanswered(from, err, wait)
		} else {
			l.heard(from, names)
			wait = around(time.Duration(from.Interval))
		}
	}
}

// around is nearly an interval: agents that start at one time do not all ask at one time for long.
func around(interval time.Duration) time.Duration {
	return interval*9/10 + rand.N(interval/5+1)
}

// unanswered notes a question without an answer, and says when to ask again.
func (l *learned) unanswered(from *config.NamesFrom, err error, waited time.Duration) time.Duration {
	interval := time.Duration(from.Interval)
	l.mu.Lock()
	l.failed++
	first := l.why == ""
	if l.from == from {
		l.why = err.Error()
	}
	var warn []health.Warning
	if !l.warned {
		warn = health.UnansweredNames(l.facts(time.Now()))
		l.warned = len(warn) > 0
	}
	l.mu.Unlock()
	for _, w := range warn {
		l.logWarning(w)
	}
	if first {
		l.log.Info("a collector does not tell names of other nodes; it is asked again", "error", err)
		return around(min(firstRetry, interval))
	}
	return around(min(max(2*waited, firstRetry), interval))
}

// heard takes an answer.
func (l *learned) heard(from *config.NamesFrom, names *nodenames.Names) {
	l.mu.Lock()
	l.answered++
	if l.from != from { // other settings meanwhile
		l.mu.Unlock()
		return
	}
	news := l.why != "" || l.answered == 1
	l.since, l.why, l.warned = time.Now(), "", false
	changed := l.merge(names)
	kept, count := l.saved(changed), len(l.nodes)
	l.mu.Unlock()
	if news {
		l.log.Info("a collector tells names of other nodes", "collector", from.Collector, "ids", count)
	}
	if !changed {
		return
	}
	l.rename()
	b, err := json.Marshal(kept)
	if err == nil {
		err = replacefile.Write(l.options.Instance.NamesFile(), b, 0o600)
	}
	if err != nil {
		l.log.Warn("the next agent will not know the names of other nodes until it is told", "error", err)
	}
}

// merge takes the names of an answer, and forgets what many have lacked. The caller holds l.mu.
func (l *learned) merge(names *nodenames.Names) (changed bool) {
	listed := map[learnedID]bool{}
	for _, n := range api.NodeNames(names) {
		id, ok := idOf(&n)
		if !ok {
			continue
		}
		listed[id] = true
		before, known := l.nodes[id]
		if len(n.Interfaces) == 0 { // a collector that has just started hears of nodes first
			n.Interfaces = before.Interfaces
		}
		next := learnedNode{NodeName: n}
		changed = changed || !known || !reflect.DeepEqual(before.NodeName, next.NodeName)
		l.nodes[id] = next
	}
	for id, n := range l.nodes {
		if listed[id] {
			continue
		}
		if n.Missing++; n.Missing > forgottenAfter || len(l.nodes) > mostLearned {
			delete(l.nodes, id)
			changed = true
			continue
		}
		l.nodes[id] = n
	}
	if changed {
		l.lookUp()
	}
	return changed
}

// saved is what the file is to have, if it changed. The caller holds l.mu.
func (l *learned) saved(changed bool) savedNames {
	kept := savedNames{Collector: l.collector, Nodes: []learnedNode{}}
	if !changed {
		return kept
	}
	for _, n := range l.nodes {
		kept.Nodes = append(kept.Nodes, n)
	}
	return kept
}

// rename puts the names in force.
func (l *learned) rename() {
	l.change.Lock()
	defer l.change.Unlock()
	next := *l.state.Load()
	next.Name(l.nameIn(next.Config), l.namesFor(next.Config))
	l.state.Store(&next)
}

// Close forgets the names with everything else.
func (l *learned) Close(removing bool) {
	if removing {
		l.forget()
	}
}

// facts are what warnings say. The caller holds l.mu.
func (l *learned) facts(now time.Time) health.NamesFrom {
	if l.from == nil {
		return health.NamesFrom{}
	}
	return health.NamesFrom{
		Collector: string(l.from.Collector), Silent: now.Sub(l.since), Long: 2*time.Duration(l.from.Interval) + 2*firstRetry,
		Why: l.why, Known: len(l.nodes),
	}
}

func (l *learned) Warnings(*service.State) []health.Warning {
	l.mu.Lock()
	defer l.mu.Unlock()
	return health.UnansweredNames(l.facts(time.Now()))
}

func (l *learned) Collect(g *metrics.Gatherer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.Add(descNamesAsked, float64(l.answered), "answered")
	g.Add(descNamesAsked, float64(l.failed), "failed")
	g.Add(descNamesLearned, float64(len(l.nodes)))
}

// namesWords are how the configuration names what says which collector is asked.
var namesWords = collectorapi.Words{
	Address: "names-from.collector", CA: "names-from.ca", User: "names-from.user", PasswordFile: "names-from.password-file",
}

// askNames asks a collector.
func askNames(ctx context.Context, from *config.NamesFrom) (*nodenames.Names, error) {
	authorities, err := from.Authorities()
	if err != nil {
		return nil, err
	}
	password, err := from.Password()
	if err != nil {
		return nil, err
	}
	asked := collectorapi.Asked{Address: string(from.Collector), CA: authorities, User: from.User, Password: password, Words: namesWords}
	client, err := asked.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	client.Limit(mostNames, askTime)
	var answer struct{ Nodes *toldNodes }
	if err := client.Ask(ctx, "v1/names", nil, &answer); err != nil {
		return nil, err
	}
	if answer.Nodes == nil {
		return nil, problem.New(fmt.Sprintf("%s answers without nodes", from.Collector), "correct names-from.collector")
	}
	return &answer.Nodes.names, nil
}

// toldNodes are the nodes of an answer. They are taken one by one, and only as many as are kept.
type toldNodes struct{ names nodenames.Names }

// toldNode is one of them.
type toldNode struct {
	ID         *ioam.NodeID     `json:"node_id"`
	IDWide     *ioam.NodeIDWide `json:"node_id_wide"`
	Name       string           `json:"name"`
	Interfaces toldInterfaces   `json:"interfaces"`
}

type toldInterfaces []api.InterfaceName

func (t *toldNodes) UnmarshalJSON(b []byte) error {
	t.names = *nodenames.New()
	return each(b, func(n *toldNode) error {
		if n.ID != nil && *n.ID > ioam.NodeIDUnavailable || n.IDWide != nil && *n.IDWide > ioam.NodeIDWideUnavailable {
			return errors.New("a node id is out of range")
		}
		node := api.NodeName{ID: n.ID, IDWide: n.IDWide, Name: n.Name, Interfaces: n.Interfaces}
		t.names.Add(node.Node())
		return nil
	})
}

func (t *toldInterfaces) UnmarshalJSON(b []byte) error {
	return each(b, func(i *api.InterfaceName) error {
		if len(*t) < nodenames.MaxInterfaces {
			*t = append(*t, *i)
		}
		return nil
	})
}

// each takes the items of a list one by one, so that memory does not grow with what is not kept.
func each[T any](b []byte, useItem func(*T) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	switch begin, err := d.Token(); {
	case err == nil && begin == nil:
		return nil // null
	case err != nil || begin != json.Delim('['):
		return errors.New("want a list")
	}
	for d.More() {
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := useItem(&one); err != nil {
			return err
		}
	}
	return nil
}
