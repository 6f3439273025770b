// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/record"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 14 * 24 * time.Hour

// Judge checks the facts of a machine.
func Judge(f *Facts) (list []health.Check) {
	if f.Unusable != nil {
		list = append(
			list,
			failed(
				"settings",
				warn(SettingsUnusable, health.Error, f.Unusable.Error(), "put right what the settings name: waymark-collector config check FILE"),
			),
		)
	} else {
		list = append(list, passed("settings", "what they name is there"))
	}
	list = append(list, f.judgePorts()...)
	list = append(list, f.judgeDisk(), f.judgeBuffer())
	if f.Clock != nil {
		list = append(list, health.CheckTime(*f.Clock, false))
	}
	for _, c := range f.Certificates {
		list = append(list, f.judgeCertificate(&c))
	}
	for _, s := range f.Secrets {
		if s.Others {
			list = append(
				list,
				failed(
					"secret",
					warn(
						SecretReadable,
						health.Degraded,
						s.Path+" can be read by every user of this machine",
						"run: chmod o-rwx "+s.Path+", and change what they may have read",
					),
				),
			)
			continue
		}
		list = append(list, passed("secret", s.Path+" is not for others"))
	}
	return list
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
	const cure = "free space, set store.size, or name a larger disk in store.directory"
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
	return passed("store", fmt.Sprintf("%s can be written, %s of %s free", f.Directory, megabytes(f.Free), megabytes(f.Total)))
}

func (f *Facts) judgeBuffer() health.Check {
	if f.Buffer < collect.ReceiveBuffer {
		return failed("receive buffer", warn(ReceiveBufferSmall, health.Degraded,
			fmt.Sprintf("a UDP socket of this user gets %d of %d octets, so that bursts of postcards are lost", f.Buffer, collect.ReceiveBuffer),
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
	if n := h.Counts["socket_dropped"]; n > 0 {
		list = append(list, failed("datagrams", warn(DatagramsDropped, health.Degraded,
			fmt.Sprintf("the kernel had no room for %d datagrams since the collector started: their records are missing", n),
			"enlarge net.core.rmem_max, give the collector more CPU time, or let nodes export fewer packets")))
	} else {
		list = append(list, passed("datagrams", "the kernel had room for all"))
	}
	missing := uint64(0)
	for i := range h.Exporters {
		missing += h.Exporters[i].Missed
	}
	lost := h.Sink["dropped"] + h.Sink["lost"]
	if missing+lost > 0 {
		list = append(list, failed("records", warn(RecordsMissing, health.Degraded,
			fmt.Sprintf("%d records did not come, by the numbers of messages, and %d were lost before they were written", missing, lost),
			"export over TCP or TLS where the network loses datagrams; look at 'waymark-collector status' for what is full")))
	} else {
		list = append(list, passed("records", "all came that exporters numbered, and all were written"))
	}
	if h.Store.Fault != "" || h.Store.Aside > 0 {
		text := "nothing is written: " + record.Printable(h.Store.Fault)
		if h.Store.Fault == "" {
			text = fmt.Sprintf("%s cannot be read: what was in there is missing in answers", columns.Counted(h.Store.Aside, "file"))
		}
		list = append(
			list,
			failed("running store", warn(CollectorProblem, health.Error, text, "look at 'waymark-collector status' and at the collector's log")),
		)
	}
	return list
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
	if worst < 0 {
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
