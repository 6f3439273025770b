// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 14 * 24 * time.Hour

// Judge checks the facts of a machine.
func Judge(f *Facts) (list []health.Check) {
	switch {
	case credentialIn(f.Unusable) != "":
		list = append(list, health.Check{Name: "settings", State: "unknown",
			Detail: credentialIn(f.Unusable) + " is there only while the service runs"})
	case f.Unusable != nil:
		list = append(
			list,
			failed(
				"settings",
				warn(SettingsUnusable, health.Error, f.Unusable.Error(), "put right what the settings name: waymark-collector config check FILE"),
			),
		)
	default:
		list = append(list, passed("settings", "what they name is there"))
	}
	list = append(list, f.judgePorts()...)
	list = append(list, f.judgeDisk())
	if !f.Running {
		list = append(list, f.judgeBuffer())
	}
	if f.Clock != nil {
		list = append(list, f.judgeClock())
	}
	for _, c := range f.Certificates {
		if credentialIn(c.Fault) == "" {
			list = append(list, f.judgeCertificate(&c))
		}
	}
	for _, s := range f.Secrets {
		list = append(list, f.judgeSecret(&s))
	}
	return list
}

func (f *Facts) judgeSecret(s *Secret) health.Check {
	others := s.Path + " can be read by every user of this machine"
	dynamic := f.Service != nil && f.Service.Dynamic && !strings.HasPrefix(s.Path, credentials)
	name := filepath.Base(s.Path)
	hand := fmt.Sprintf("hand it to the service with LoadCredential=%s:%s in a drop-in (systemctl edit waymark-collector), and write %s%s/%s "+
		"into the settings", name, s.Path, credentials, service, name)
	switch {
	case s.Others && dynamic:
		return failed("secret", warn(SecretReadable, health.Degraded,
			others+", and otherwise not by the service, whose user systemd makes when it starts (DynamicUser)",
			hand+"; then run: chmod o-rwx "+s.Path+", and change what they may have read"))
	case s.Others:
		return failed("secret", warn(SecretReadable, health.Degraded, others,
			"run: chmod o-rwx "+s.Path+", and change what they may have read"))
	case dynamic:
		return failed("secret", warn(SettingsUnusable, health.Error,
			"the service cannot read "+s.Path+", because systemd makes its user when it starts (DynamicUser)", hand))
	}
	return passed("secret", s.Path+" is not for others")
}

// judgeClock looks at the clock as a collector needs it.
func (f *Facts) judgeClock() health.Check {
	if f.Clock.Synchronised {
		return passed("clock", fmt.Sprintf("synchronised within %v", f.Clock.MaxError))
	}
	return failed("clock", warn(health.ClockUnsynced, health.Degraded,
		"the kernel's clock is not synchronised (STA_UNSYNC): packets are kept at the times of nodes, so that the last hour is another "+
			"one here than there, and which exporter's clock is wrong is not known",
		"run an NTP or PTP client (chrony, ptp4l with phc2sys), and wait until it has set the clock"))
}

func (f *Facts) judgePorts() (list []health.Check) {
	for _, p := range f.Ports {
		switch {
		case p.Fault == nil:
			list = append(list, passed("port", p.Name+" is free"))
		case isTaken(p.Fault):
			list = append(
				list,
				failed(
					"port",
					warn(PortTaken, health.Error, p.Name+" is used by another program", "end the program that has it (ss -lntup), or choose another port"),
				),
			)
		default:
			list = append(
				list,
				failed(
					"port",
					warn(
						PortTaken,
						health.Error,
						fmt.Sprintf("%s: %v", p.Name, p.Fault),
						"name an address that this machine has, and a port that this user may open",
					),
				),
			)
		}
	}
	return list
}

func (f *Facts) judgeDisk() health.Check {
	const cure = "free space, set store.free to less, or name a larger disk in store.directory"
	switch {
	case f.Unwritable != nil:
		return failed(
			"store",
			warn(
				StoreUnwritable,
				health.Error,
				f.Unwritable.Error(),
				"run this as the collector's user; if it fails then, too, let that user write the directory, or set store.directory",
			),
		)
	case f.Used:
		return failed("store", warn(StoreUnwritable, health.Error, "another process has the store in "+f.Directory+" open",
			"end it, or name another directory in store.directory"))
	case f.Service.refuses(f.Directory) != "":
		return failed("store", warn(StoreUnwritable, health.Error, f.Service.refuses(f.Directory),
			"keep the store below "+f.Service.own()+", or give the service a user of its own that may write there: "+
				"docs/how-to/run-a-collector.md, \"Keep the store elsewhere\""))
	case f.Free < f.Reserve:
		return failed(
			"store",
			warn(
				DiskShort,
				health.Error,
				fmt.Sprintf(
					"%s has %s free, less than store.free (%s): old files leave, and then nothing is written",
					f.Directory,
					megabytes(f.Free),
					megabytes(f.Reserve),
				),
				cure,
			),
		)
	case f.Free < 2*f.Reserve:
		return failed(
			"store",
			warn(
				DiskShort,
				health.Degraded,
				fmt.Sprintf(
					"%s has %s free; when it has less than %s (store.free), the oldest files leave",
					f.Directory,
					megabytes(f.Free),
					megabytes(f.Reserve),
				),
				cure,
			),
		)
	}
	can := "can be written"
	if f.New {
		can = "is not there, and can be made"
	}
	return passed("store", fmt.Sprintf("%s %s, %s of %s free", f.Directory, can, megabytes(f.Free), megabytes(f.Total)))
}

func (f *Facts) judgeBuffer() health.Check {
	whose := "this user"
	if f.Service != nil {
		whose = "the service"
	}
	if f.Buffer < collect.ReceiveBuffer {
		return failed("receive buffer", warn(ReceiveBufferSmall, health.Degraded,
			fmt.Sprintf("a UDP socket of %s gets %d of %d octets, so that bursts of postcards are lost", whose, f.Buffer, collect.ReceiveBuffer),
			fmt.Sprintf(
				"run: sysctl -w net.core.rmem_max=%d, and write it into /etc/sysctl.d; or give the collector CAP_NET_ADMIN",
				collect.ReceiveBuffer,
			),
		))
	}
	return passed("receive buffer", fmt.Sprintf("%d octets for each UDP socket", f.Buffer))
}

func (f *Facts) judgeCertificate(c *Ending) health.Check {
	const cure = "renew it; the API takes the new one without a restart, endpoints of listen after one"
	left := c.Until.Sub(f.Now)
	switch {
	case c.Fault != nil:
		return failed(
			"certificate",
			warn(
				CertificateEnds,
				health.Error,
				fmt.Sprintf("%s: %v", c.Path, c.Fault),
				"name a file that this user may read, with a certificate in PEM",
			),
		)
	case left <= 0:
		return failed(
			"certificate",
			warn(CertificateEnds, health.Error, fmt.Sprintf("%s ended at %s", c.Path, c.Until.UTC().Format(time.RFC3339)), cure),
		)
	case left < soon:
		return failed(
			"certificate",
			warn(
				CertificateEnds,
				health.Degraded,
				fmt.Sprintf("%s ends in %d days, at %s", c.Path, int(left.Hours()/24), c.Until.UTC().Format(time.RFC3339)),
				cure,
			),
		)
	}
	return passed("certificate", fmt.Sprintf("%s is valid for %d days", c.Path, int(left.Hours()/24)))
}

// hoursOff is by how much a clock differs that is not only drifting.
const hoursOff = 10 * time.Minute

// JudgeRunning checks what a running collector says of itself.
func JudgeRunning(h *query.Health) (list []health.Check) {
	list = append(list, judgeExporters(h))
	list = append(list, judgeBuffers(h)...)
	if n := h.Counts["socket_dropped"]; n > 0 {
		list = append(list, failed("datagrams", warn(DatagramsDropped, health.Degraded,
			fmt.Sprintf("the kernel had no room for %d datagrams since the collector started: their records are missing", n),
			"enlarge net.core.rmem_max, give the collector more CPU time, or let nodes export fewer packets")))
	} else {
		list = append(list, passed("datagrams", "the kernel had room for all"))
	}
	list = append(list, judgeRecords(h))
	if h.Store.Fault != "" || h.Store.Aside > 0 {
		text, cure := "nothing is written: "+problem.OneLine(h.Store.Fault), problem.OneLine(h.Store.Cure)
		if h.Store.Fault == "" {
			text = fmt.Sprintf("%s cannot be read: what was in there is missing in answers", columns.Counted(h.Store.Aside, "file"))
		}
		if cure == "" {
			cure = "look at 'waymark-collector status' and at the collector's log"
		}
		list = append(list, failed("running store", warn(CollectorProblem, health.Error, text, cure)))
	}
	return list
}

// judgeBuffers looks at what the collector's sockets have. A collector of an earlier version does not say it.
func judgeBuffers(h *query.Health) (list []health.Check) {
	for _, b := range h.Buffers {
		at := record.Printable(b.Endpoint)
		if b.Bytes < collect.ReceiveBuffer {
			list = append(list, failed("receive buffer", warn(ReceiveBufferSmall, health.Degraded,
				fmt.Sprintf("the sockets at %s have %d of %d octets, so that bursts of postcards are lost", at, b.Bytes, collect.ReceiveBuffer),
				fmt.Sprintf("run: sysctl -w net.core.rmem_max=%d, write it into /etc/sysctl.d, and restart the collector", collect.ReceiveBuffer))))
			continue
		}
		list = append(list, passed("receive buffer",
			fmt.Sprintf("%d octets for each of %s at %s", b.Bytes, columns.Counted(b.Sockets, "socket"), at)))
	}
	return list
}

// judgeRecords looks at what became of records on their way into the store.
func judgeRecords(h *query.Health) health.Check {
	missing := uint64(0)
	for i := range h.Exporters {
		missing += h.Exporters[i].Missed
	}
	by := map[string]uint64{}
	for _, l := range h.Lost {
		if l.Stage == "decode" && !strings.HasPrefix(l.Cause, "sequence_") { // those are counted by exporter
			by["decode"] += l.Count
		}
		if l.Stage == "join" {
			by[l.Cause] += l.Count
		}
	}
	var texts []string
	for _, p := range []struct {
		n    uint64
		text string
	}{
		{missing, "%s did not come, by the numbers of messages"},
		{by["decode"], "%s could not be read"},
		{by["postcards_late"], "%s of packets came after their path was kept (join.wait)"},
		{by["postcards_excess"], "%s of packets were beyond what a path has"},
		{h.Sink["dropped"] + h.Sink["lost"], "%s were lost before they were written"},
	} {
		if p.n > 0 {
			texts = append(texts, fmt.Sprintf(p.text, columns.Counted(p.n, "record")))
		}
	}
	if len(texts) > 0 {
		return failed("records", warn(RecordsMissing, health.Degraded, strings.Join(texts, "; "),
			"export over TCP or TLS where the network loses datagrams; look at 'waymark-collector status' for what is full, and at lost in "+
				"/v1/health for each cause"))
	}
	text := "all came that exporters numbered, and none was lost"
	if n := h.Counts["postcards_unjoinable"]; n > 0 {
		text += fmt.Sprintf("; %d came without what joins them, and are in no path", n)
	}
	if n := h.Sink["waiting"]; n > 0 {
		text += fmt.Sprintf("; %d not written yet", n)
	}
	return passed("records", text)
}

// judgeExporters looks at the clocks of those who send.
func judgeExporters(h *query.Health) health.Check {
	worst, n := -1, 0
	for i := range h.Exporters {
		e := &h.Exporters[i]
		if off(e) < time.Second {
			continue
		}
		if n++; worst < 0 || off(e) > off(&h.Exporters[worst]) {
			worst = i
		}
	}
	switch {
	case len(h.Exporters) == 0:
		return passed("exporters", "none has sent anything yet")
	case worst < 0:
		return passed("exporters", fmt.Sprintf("%d, with clocks that agree with this machine's within a second", len(h.Exporters)))
	}
	e := &h.Exporters[worst]
	severity := health.Degraded
	if off(e) >= hoursOff {
		severity = health.Error // its records are looked for at another time
	}
	which := "ahead of"
	if e.Clock < 0 {
		which = "behind"
	}
	name := record.Printable(e.Name)
	if name == "" {
		name = e.Address
	}
	return failed("exporters", warn(
		ExporterClockWrong,
		severity,
		fmt.Sprintf(
			"%d of %d exporters have clocks that differ from this machine's; that of %s is %v %s it, or its records come so late",
			n,
			len(h.Exporters),
			name,
			off(e).Round(time.Millisecond),
			which,
		),
		"synchronise the clocks of all nodes and of this machine (chrony, ptp4l): records are kept at the times that nodes report",
	))
}

// off is by how much an exporter's clock differs, as far as that is known.
func off(e *query.Exporter) time.Duration { return time.Duration(max(e.Clock, -e.Clock)) }
