// SPDX-License-Identifier: Apache-2.0

// Package settings is the file of the collector: its keys, their defaults and rules.
package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/sink/jsonl"
	"github.com/waymark-net/waymark/internal/sink/otlpsink"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ipfix"
)

// Settings are those of a collector.
type Settings struct {
	Listen     []Listen   `key:"listen" optional:"true"`
	TLS        *TLS       `key:"tls" optional:"true"`
	Enterprise Enterprise `key:"enterprise" default:"32473"`
	Join       Join       `key:"join"`
	Store      Store      `key:"store"`
	API        API        `key:"api"`
	Events     *Events    `key:"events" optional:"true"`
	Metrics    Metrics    `key:"metrics"`
	Export     []Export   `key:"export" optional:"true"`
}

// TLS are the certificates of the collector.
type TLS struct {
	Certificate string `key:"certificate" required:"true"`
	Key         string `key:"key" required:"true"`
	ClientCA    string `key:"client-ca" optional:"true"`
}

// Join bounds what waits to be joined.
type Join struct {
	Wait      Wait  `key:"wait" default:"2s"`
	Hold      Wait  `key:"hold" default:"1m"`
	Postcards Count `key:"postcards" default:"1000000"`
}

// Store is what is kept.
type Store struct {
	Directory string `key:"directory" default:"/var/lib/waymark"`
	Age       Age    `key:"age" default:"30d"`
	Size      Size   `key:"size" optional:"true"`
	Free      Size   `key:"free" default:"500MB"`
	Memory    Size   `key:"memory" default:"1GB"`
}

// fileTexts say what the keys of the file mean.
var fileTexts = yamlfile.KeyTexts{
	"listen": "Where exporters send IPFIX: udp://ADDRESS:PORT, tcp://ADDRESS:PORT or tls://ADDRESS:PORT. [::] is every " +
		"address of this machine, IPv4 included. Senders over UDP and TCP are not authenticated.",
	"listen, absent": "udp://[::1]:4739 and tcp://[::1]:4739",
	"tls":            "Certificates for endpoints with tls://.",
	"tls, absent":    "no endpoint has TLS",
	"enterprise":     "Private enterprise number under which exporters have Waymark's own elements.",
	"join":           "How postcards are joined into paths.",
	"store":          "What is kept, and where.",
	"api":            "Where people and programs ask for it.",
	"events": "What the collector finds in what it receives: segments that are slow, losses, silent nodes, paths that " +
		"moved.",
	"events, absent": "the defaults of its keys",
	"events.clock-error": "By how much the clocks of any two nodes differ at most. A segment, from one node to the next, " +
		"is judged only with it: slow is what takes longer than usual by more than this.",
	"events.clock-error, absent": "unknown, so that no segment counts as slow",
	"metrics":                    "What Prometheus gets of joined paths, and of traces that packets carried.",
	"export":                     "Where records go besides the store.",
	"export, absent":             "nowhere",
	"tls.certificate":            "File of the collector's certificate, in PEM.",
	"tls.key":                    "File of its key.",
	"tls.client-ca":              "File of the authorities that sign exporters' certificates.",
	"tls.client-ca, absent":      "exporters need no certificate",
	"join.wait":                  "Time to wait for the postcards of a packet, and for what other nodes counted in a block.",
	"join.hold": "In this time after its start, a collector that gets postcards which had waited, as after an outage, lets packets wait " +
		"for those of other exporters until the time is over. Not more than join.wait: no longer.",
	"join.postcards": "Postcards that wait, of about 1 kB each, or are remembered, of 50 to 110 octets; beyond it, the oldest packets are " +
		"given out as they are.",
	"store.directory":    "Directory of the files. It is made if it is not there, with those above it.",
	"store.age":          "Files leave when all that they have is older.",
	"store.size":         "The oldest files leave while all have more octets than this.",
	"store.size, absent": "no limit but the disk",
	"store.free": "What stays free on the disk: the oldest files leave for it, and when there are none, nothing is " +
		"written and reads go on.",
	"store.memory": "What the database takes at most: for writing, and for all queries together.",
}

// Events is what the finding of events needs to know.
type Events struct {
	ClockError *Difference `key:"clock-error" optional:"true"`
}

// Scalars of the file.
type (
	Listen     string
	Enterprise uint32
	Wait       time.Duration
	Age        time.Duration
	Difference time.Duration
	Size       int64
	Count      uint32
	Address    string
	Host       string
	RoleName   string
	Prefix     netip.Prefix
	Namespace  uint16
)

var format = &yamlfile.Format{
	Scalars: exportScalars.With(yamlfile.Scalars{
		reflect.TypeFor[string](): yamlfile.Texts,
		reflect.TypeFor[Listen](): yamlfile.NewCodec(
			yamlfile.Text,
			"udp://ADDRESS:PORT, tcp://ADDRESS:PORT or tls://ADDRESS:PORT",
			parseListen,
			func(l Listen) string { return string(l) },
		),
		reflect.TypeFor[Enterprise](): yamlfile.NewCodec(yamlfile.Number, "the private enterprise number of your exporters", parseEnterprise,
			func(e Enterprise) string { return strconv.FormatUint(uint64(e), 10) }),
		reflect.TypeFor[Wait](): yamlfile.NewCodec(
			yamlfile.Text,
			"a time from 100ms to 1h, such as 2s",
			parseWait,
			yamlfile.FormatPeriod[Wait],
		),
		reflect.TypeFor[Difference](): yamlfile.NewCodec(
			yamlfile.Text,
			"a time from 0s to 1s, such as 100us",
			parseDifference,
			yamlfile.FormatPeriod[Difference],
		),
		reflect.TypeFor[Age](): yamlfile.NewCodec(
			yamlfile.Text,
			"whole hours or days up to 3650d, such as 12h or 30d",
			parseAge,
			formatAge,
		),
		reflect.TypeFor[Size](): yamlfile.NewCodec(
			yamlfile.Text,
			"a whole number of MB, GB or TB, such as 500MB or 20GB",
			parseSize,
			formatSize,
		),
		reflect.TypeFor[Count](): yamlfile.NewCodec(
			yamlfile.Number,
			"a number from 1 to 4294967295",
			parseCount,
			func(c Count) string { return strconv.FormatUint(uint64(c), 10) },
		),
		reflect.TypeFor[Address](): yamlfile.NewCodec(
			yamlfile.Text,
			"http://ADDRESS:PORT or https://ADDRESS:PORT, such as http://[::1]:4780",
			parseAddress,
			func(a Address) string { return string(a) },
		),
		reflect.TypeFor[Host](): yamlfile.NewCodec(
			yamlfile.Text,
			"a name of a host without a port, such as collector.example.net",
			parseHost,
			func(h Host) string { return string(h) },
		),
		reflect.TypeFor[RoleName](): yamlfile.NewCodec(
			yamlfile.Text,
			"viewer or admin",
			parseRole,
			func(r RoleName) string { return string(r) },
		),
		reflect.TypeFor[Prefix](): yamlfile.NewCodec(
			yamlfile.Text,
			"a prefix, such as 2001:db8:1::/48",
			parsePrefix,
			func(p Prefix) string { return netip.Prefix(p).String() },
		),
		reflect.TypeFor[Namespace](): yamlfile.NewCodec(
			yamlfile.Number,
			"a Namespace-ID from 0 to 65535",
			parseNamespace,
			func(n Namespace) string { return strconv.Itoa(int(n)) },
		),
	}),
	TooLarge: "remove what the collector does not need",
	TooMany:  "remove what the collector does not need",
	Empty:    "write at least one key, such as store: {age: 30d}; without a file, the collector has its defaults",
}

// Parse reads a file; name stands for it in errors, which are all reported.
func Parse(name string, text []byte) (*Settings, error) {
	s := &Settings{}
	err := format.Parse(name, text, s, func(r *yamlfile.Reader) { s.check(r.Refuse) })
	if err != nil {
		return nil, err
	}
	s.complete()
	return s, nil
}

// mostOctets bounds a file.
const mostOctets = 1 << 20

// Read reads the file with that path; "" is none: all defaults.
func Read(path string) (*Settings, error) {
	if path == "" {
		return Parse("the defaults", []byte("api: {}\n"))
	}
	text, err := inputfile.Read(path, mostOctets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, problem.Wrap(err, "name a file of settings; 'waymark-collector config show' prints one to begin with")
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// complete fills in the defaults that are lists.
func (s *Settings) complete() {
	if len(s.Listen) == 0 {
		s.Listen = []Listen{"udp://[::1]:4739", "tcp://[::1]:4739"}
	}
}

// check adds the errors that single values do not have.
func (s *Settings) check(add func(path, problem, cure string)) {
	s.checkExports(add)
	secured := false
	for i, l := range s.Listen {
		e, err := collect.ParseEndpoint(string(l))
		if err != nil {
			continue
		}
		secured = secured || e.TLS
		if e.TLS && s.TLS == nil {
			add(fmt.Sprintf("listen[%d]", i), "TLS needs a certificate", "add tls: {certificate: FILE, key: FILE}")
		}
	}
	if s.TLS != nil && !secured {
		add("tls", "no endpoint of listen has TLS", "add tls://[::]:4740 to listen, or remove tls")
	}
	s.API.check(add)
}

// Endpoints are where exporters send.
func (s *Settings) Endpoints() (list []collect.Endpoint) {
	for _, l := range s.Listen {
		if e, err := collect.ParseEndpoint(string(l)); err == nil { // it was read like this
			list = append(list, e)
		}
	}
	return list
}

// Bounds for ten thousand exporters: three quarters of the sessions and templates may be of UDP. Templates that senders
// invent take 500 MB at most, those of agents 40 MB.
const (
	mostSessions    = 1 << 14
	mostTemplates   = 1 << 16
	mostConnections = 12_000
)

// clockInterval is the time between two records that are kept of the error of a node's clock: six rows a minute for each
// node, whatever the number of flows. Answers say the greatest error of a minute.
const clockInterval = 10 * time.Second

// Collect is the configuration of what receives and joins, without its sinks.
func (s *Settings) Collect() (collect.Config, error) {
	c := collect.Config{
		Listen: s.Endpoints(), ListenName: "listen", Enterprise: ipfix.Enterprise(s.Enterprise),
		Join:   join.Config{Wait: time.Duration(s.Join.Wait), Hold: time.Duration(s.Join.Hold), Keep: int(s.Join.Postcards)},
		Limits: ipfix.Limits{Sessions: mostSessions, Templates: mostTemplates}, Connections: mostConnections,
		ClockInterval: clockInterval,
	}
	if s.TLS == nil {
		return c, nil
	}
	var err error
	c.TLS, err = collect.LoadTLS(s.TLS.Certificate, s.TLS.Key, s.TLS.ClientCA)
	return c, err
}

// Marshal writes the file with every default.
func (s *Settings) Marshal() []byte { return format.Marshal(s) }

// MarshalJSON has the keys of the file.
func (s *Settings) MarshalJSON() ([]byte, error) { return format.JSON(s) }

// Reference documents all keys, in Markdown.
func Reference() []byte { return format.Reference(&Settings{}, texts()) }

// texts say what each key of the file means. Each table stands after the structs that have its keys.
func texts() yamlfile.KeyTexts {
	return fileTexts.
		With("api", apiTexts).
		With("metrics", metricsTexts).
		With("export[]", exportTexts).
		With("export[]", jsonl.KeyTexts).
		With("export[]", otlpsink.KeyTexts)
}

func parseListen(text string) (Listen, error) {
	_, err := collect.ParseEndpoint(text)
	var cured *problem.Problem
	if err != nil && !errors.As(err, &cured) {
		err = fmt.Errorf("%q is no endpoint", text)
	}
	return Listen(text), err
}

func parseEnterprise(text string) (Enterprise, error) {
	n, err := yamlfile.ParseUint(text, 32)
	if err == nil && (ipfix.Enterprise(n) == ipfix.EnterpriseIANA || ipfix.Enterprise(n) == ipfix.EnterpriseIOAM) {
		err = fmt.Errorf("%d has other elements", n)
	}
	return Enterprise(n), err
}

func parseWait(text string) (Wait, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", text)
	case d < 100*time.Millisecond || d > time.Hour:
		return 0, fmt.Errorf("%s is out of range", text)
	}
	return Wait(d), nil
}

func parseDifference(text string) (Difference, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", text)
	case d < 0 || d > time.Second:
		return 0, fmt.Errorf("%s is out of range", text)
	}
	return Difference(d), nil
}

// OrUnknown is a difference that is set, else one below 0.
func (e *Events) OrUnknown() time.Duration {
	if e == nil || e.ClockError == nil {
		return -1
	}
	return time.Duration(*e.ClockError)
}

var ages = regexp.MustCompile(`^([1-9][0-9]{0,5})([hd])$`)

const (
	day     = 24 * time.Hour
	mostAge = 3650 * day
)

func parseAge(text string) (Age, error) {
	m := ages.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a number of hours or days", text)
	}
	n, err := strconv.Atoi(m[1])
	d := time.Duration(n) * time.Hour
	if m[2] == "d" {
		d = time.Duration(n) * day
	}
	if err != nil || d > mostAge {
		return 0, fmt.Errorf("%s is too long", text)
	}
	return Age(d), nil
}

func formatAge(a Age) string {
	if d := time.Duration(a); d%day != 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", time.Duration(a)/day)
}

var (
	sizes = regexp.MustCompile(`^([1-9][0-9]{0,5})(MB|GB|TB)$`)
	units = []struct {
		name   string
		octets int64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}}
)

func parseSize(text string) (Size, error) {
	m := sizes.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	for _, u := range units {
		if u.name == m[2] {
			n *= u.octets
		}
	}
	return Size(n), err
}

func formatSize(s Size) string {
	for _, u := range units {
		if int64(s)%u.octets == 0 {
			return fmt.Sprintf("%d%s", int64(s)/u.octets, u.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseCount(text string) (Count, error) {
	n, err := yamlfile.ParseUint(text, 32)
	if err == nil && n == 0 {
		err = errors.New("0 is none")
	}
	return Count(n), err
}
