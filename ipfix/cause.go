// SPDX-License-Identifier: Apache-2.0

package ipfix

import "fmt"

// Cause is the cause of an error in a message, for counting. It is an error, for
// errors.Is.
type Cause uint8

// Causes. Those up to [CauseTruncatedRecord] discard the whole message: it is malformed
// (RFC 7011 §9.1) or beyond a limit. The others concern a part of it.
const (
	CauseTruncatedMessage  Cause = iota // shorter than its header, or than its length field says
	CauseVersion                        // not version 10
	CauseMessageLength                  // longer than its length field says, or that is less than a header
	CauseDomainLimit                    // one observation domain more than the session may have
	CauseTruncatedSet                   // a set ends within its header or reaches beyond the message
	CauseTruncatedTemplate              // a template record reaches beyond its set
	CauseTruncatedRecord                // a data record reaches beyond its set, or a data set has none

	CauseReservedSet           // set of a reserved kind: skipped
	CauseTemplateInvalid       // template that no record can have: skipped
	CauseFieldLimit            // template with more fields than allowed: skipped
	CauseTemplateLimit         // one template more than allowed: skipped
	CauseFieldLength           // field of a length that its type cannot have: values read as octets
	CauseTemplateRedefined     // over TCP, another template under a number in use: both are dropped
	CauseWithdrawalUnknown     // withdrawal of an unknown template: ignored
	CauseWithdrawalUDP         // withdrawal over UDP: ignored
	CauseUnknownTemplate       // data set of an unknown template: skipped
	CauseValueLimit            // data set with a value longer than allowed: skipped
	CauseOptionsBeforeTemplate // options record about an unknown template: kept
	CauseSequenceGap           // records are missing
	CauseSequenceOutOfOrder    // message late, twice, or after a restart of the exporter: kept

	// NumCauses is the number of causes.
	NumCauses
)

// causes are names for metrics, meanings for operators, and sections of RFC 7011.
var causes = [NumCauses]struct{ name, meaning, section string }{
	CauseTruncatedMessage:      {"truncated_message", "the message is shorter than its length field says", "§3.1"},
	CauseVersion:               {"version", "the message is not of version 10", "§3.1"},
	CauseMessageLength:         {"message_length", "the message is not as long as its length field says", "§3.1"},
	CauseDomainLimit:           {"domain_limit", "the session has too many observation domains", "§11.4"},
	CauseTruncatedSet:          {"truncated_set", "a set reaches beyond its message", "§3.3.2"},
	CauseTruncatedTemplate:     {"truncated_template", "a template record reaches beyond its set", "§3.4.1"},
	CauseTruncatedRecord:       {"truncated_record", "a data record reaches beyond its set", "§3.4.3"},
	CauseReservedSet:           {"reserved_set", "a set is of a reserved kind", "§3.3.2"},
	CauseTemplateInvalid:       {"template_invalid", "a template's number, scope or fields are invalid", "§3.4.1"},
	CauseFieldLimit:            {"field_limit", "a template has too many fields", "§11.4"},
	CauseTemplateLimit:         {"template_limit", "there are too many templates", "§11.4"},
	CauseFieldLength:           {"field_length", "a field has a length that its type cannot have", "§6.2"},
	CauseTemplateRedefined:     {"template_redefined", "a template replaces another that was not withdrawn", "§8.1"},
	CauseWithdrawalUnknown:     {"withdrawal_unknown", "a withdrawn template is not known", "§8.1"},
	CauseWithdrawalUDP:         {"withdrawal_udp", "a template is withdrawn over UDP", "§8.4"},
	CauseUnknownTemplate:       {"unknown_template", "a data set's template is not known", "§9"},
	CauseValueLimit:            {"value_limit", "a value is too long", "§11.4"},
	CauseOptionsBeforeTemplate: {"options_before_template", "an options record is about a template that is not known", "§3.4.2.1"},
	CauseSequenceGap:           {"sequence_gap", "data records were missed", "§3.1"},
	CauseSequenceOutOfOrder:    {"sequence_out_of_order", "a message is late, comes twice, or its exporter restarted", "§9"},
}

// String is the cause's name in metrics.
func (c Cause) String() string {
	if c >= NumCauses {
		return "unknown"
	}
	return causes[c].name
}

// Meaning is the cause as a sentence without a full stop.
func (c Cause) Meaning() string {
	if c >= NumCauses {
		return "unknown"
	}
	return causes[c].meaning
}

// Section is the section of RFC 7011 that applies, as in "§3.1".
func (c Cause) Section() string {
	if c >= NumCauses {
		return ""
	}
	return causes[c].section
}

// Error is the meaning.
func (c Cause) Error() string { return c.Meaning() }

// Discards reports whether a message with this error is discarded as a whole.
func (c Cause) Discards() bool { return c <= CauseTruncatedRecord }

// Problem is an error in a message: where it first occurs and how often.
type Problem struct {
	Cause  Cause
	Offset int    // octets from the start of the message
	ID     uint16 // of the set or template, if the error is about one
	Count  uint32 // missing records, for CauseSequenceGap; occurrences, for the others
}

func (p *Problem) Error() string {
	return fmt.Sprintf("offset %d, id %d: %v (RFC 7011 %s)", p.Offset, p.ID, p.Cause, p.Cause.Section())
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }
