// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waymark-net/waymark/internal/agent"
	"github.com/waymark-net/waymark/internal/agent/instances"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/journal"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/supervisor"
)

// stopTimeout is how long an agent may take to end.
var stopTimeout = patience.Of(15 * time.Second)

// localSocket is the API socket of the agent of this network namespace.
func localSocket() (string, error) {
	instance, err := api.Here()
	return instance.Socket(), err
}

// client is a client of the agent that the flags select.
func (o *options) client() (*api.Client, error) {
	socket, err := o.socketPath()
	if err != nil {
		return nil, err
	}
	return api.NewClient(socket), nil
}

// interfacesLeft names the interfaces that programs of an ended agent still serve. That is known
// only for this network namespace.
func (o *options) interfacesLeft() []string {
	if o.socket != "" || o.programsLeft == nil {
		return nil
	}
	return o.programsLeft()
}

func localLeft() []string {
	instance, err := api.Here()
	if err != nil {
		return nil
	}
	return instances.Left(instance)
}

func newAgentCommand(opts *options) *cobra.Command {
	cmd := commandline.Group("agent", "Run the agent of this network namespace, reload it, stop it",
		newAgentRunCommand(opts), newAgentReloadCommand(opts), newAgentStopCommand(opts), newAgentConfigCommand(opts))
	cmd.Long = `The agent serves one network namespace: it loads the programs, applies the
configuration, reads records and answers the other commands. Agents of different
namespaces do not interfere.

When it ends, its programs stay attached: packets keep their treatment until the
next agent takes over, or until 'waymark agent stop --remove'.`
	return cmd
}

func newAgentRunCommand(opts *options) *cobra.Command {
	var file, format, level, name string
	var oneClock, dry bool
	watched := time.Minute
	cmd := &cobra.Command{
		Use:        "run --config FILE",
		SuggestFor: []string{"start", "up", "serve"},
		Short:      "Run the agent in the foreground",
		Long: `Run the agent in the foreground until SIGTERM or SIGINT. SIGHUP loads the file
again, as a whole; if it has an error, nothing changes. The log goes to standard
error. With NOTIFY_SOCKET (systemd's Type=notify), the service manager gets
reports: ready, reloading, stopping, the state, and watchdog signals.

With --dry-run, no program is loaded and no packet is changed: for the time
--for, copies of the packets that pass are compared with the configuration. Then
it prints how many would get a header, not fit the MTU with one, lose one, get
this node's data, or be dropped, what would become of them in each direction of
each interface, and which headers would not fit the MTUs of interfaces. It is
for a node on which no agent runs, or one in mode observe: packets are as they
arrive there.`,
		Example: `  waymark agent run --config /etc/waymark/node.yaml
  waymark agent run --config /etc/waymark/node.yaml --dry-run --for 10s`,
		Args: commandline.OnlyFlag("config"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return commandline.Usagef("--config FILE is missing")
			}
			if dry {
				return dryRun(cmd, opts, file, watched)
			}
			log, err := newLog(cmd.ErrOrStderr(), format, level)
			if err != nil {
				return err
			}
			instance, err := api.Here()
			if err != nil {
				return err
			}
			if nodenames.Printable(name) != name {
				return commandline.Usagef("--node-name %q: want at most %d octets without control characters", name, nodenames.MaxLength)
			}
			host, _ := os.Hostname() // without it, records have no node name
			path, err := filepath.Abs(file)
			if err != nil {
				return err
			}
			return runAgent(cmd.Context(), agent.Options{
				ConfigFile: path, Instance: instance, NodeName: name, HostName: host, OneClock: oneClock, Version: commandline.Version(), Log: log,
				Stdout:  cmd.OutOrStdout(),
				Manager: supervisor.New(log),
			})
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration `FILE`")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what the configuration would do to the packets that pass, and end")
	cmd.Flags().DurationVar(&watched, "for", watched, "with --dry-run: `TIME` for which packets are looked at")
	cmd.Flags().StringVar(&format, "log-format", "text", "`FORMAT` of the log: text or json")
	cmd.Flags().StringVar(&level, "log-level", "info", "lowest `LEVEL` that is logged: debug, info, warn or error")
	cmd.Flags().StringVar(&name, "node-name", "", "`NAME` of this node in records (default: node.name of the file, else the host name)")
	cmd.Flags().
		BoolVar(&oneClock, "one-clock", false, "all nodes of the domain read this machine's clock: do not warn that it is not synchronised")
	return cmd
}

// dryRun prints what a configuration would do to the packets that pass.
func dryRun(cmd *cobra.Command, opts *options, file string, watched time.Duration) error {
	if watched <= 0 || watched > time.Hour {
		return commandline.Usagef("--for %v: want a time up to 1h", watched)
	}
	if left := opts.interfacesLeft(); len(left) > 0 {
		return problem.New(
			fmt.Sprintf("programs of an agent serve %s here, so packets are not as they arrive", strings.Join(left, ", ")),
			"run 'waymark agent stop --remove' first, or use another node",
		)
	}
	if c, err := opts.client(); err == nil {
		if s, err := c.Status(cmd.Context()); err == nil && s.Node.Mode != string(config.ModeObserve) {
			return problem.New(
				"an agent runs here that may change packets, so they are not as they arrive",
				"set node.mode: observe, use 'waymark agent stop --remove' first, or another node",
			)
		}
	}
	report, err := agent.DryRun(cmd.Context(), file, watched, nil)
	switch {
	case err != nil:
		return err
	case opts.JSON:
		return commandline.PrintJSON(cmd.OutOrStdout(), report)
	}
	var b strings.Builder
	err = printProblems(&b, report.Warnings, "the same with --json")
	text := columns.Fold(b.String(), opts.View(cmd.OutOrStdout()).Width, "  ")
	if text != "" {
		text = "\n" + text
	}
	_, failed := io.WriteString(cmd.OutOrStdout(), report.String()+text)
	return errors.Join(err, failed)
}

func newLog(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, commandline.Usagef("--log-level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(journal.Handler(w, func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) })), nil
	case "json":
		options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindTime {
				a.Value = slog.StringValue(instant.Format(a.Value.Time()))
			}
			return a
		}
		return slog.New(journal.Handler(w, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) })), nil
	}
	return nil, commandline.Usagef("--log-format %q: want text or json", format)
}

// runAgent runs an agent that reloads on SIGHUP. The handler is set up first: without
// one, the signal would end the process.
func runAgent(ctx context.Context, o agent.Options) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ready, done := make(chan struct{}), make(chan struct{})
	defer close(done)
	o.Ready = func() { close(ready) }
	a := agent.New(o)
	go func() {
		select {
		case <-ready:
		case <-done:
			return
		}
		for {
			select {
			case <-hangup:
				_ = a.Reload() // Reload logs every error
			case <-done:
				return
			}
		}
	}()
	return a.Run(ctx)
}

func newAgentReloadCommand(opts *options) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:        "reload",
		SuggestFor: []string{"restart", "refresh", "apply"},
		Short:      "Load the configuration file again",
		Long: `Load the configuration file again, as a whole. This ends changes made at
runtime, and says so. If the file has errors, they are all printed and nothing
changes. The command returns when the new configuration is in force, or refused.
Warnings and hints that the earlier configuration did not cause are printed on
standard error. The agent logs the warnings, too: --quiet leaves them to it,
where its log and the output of the command are in one place.`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			done, err := c.Reload(cmd.Context())
			var refused *api.Error
			switch errors.As(err, &refused); {
			case refused != nil && len(refused.Faults) > 0:
				return refused.Faults
			case err != nil:
				return err
			case opts.JSON:
				return commandline.PrintJSON(
					cmd.OutOrStdout(),
					reloadResult{OK: true, RuntimeChangesEnded: done.RuntimeChangesEnded, Warnings: done.Warnings},
				)
			case quiet:
				return nil
			case done.RuntimeChangesEnded:
				fmt.Fprintln(cmd.ErrOrStderr(), "changes made at runtime have ended: only the file is in force")
			}
			printAdvice(cmd, done.Warnings)
			return nil
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print no warnings: the agent logs them")
	return cmd
}

// reloadResult is the JSON of agent reload.
type reloadResult struct {
	OK                  bool             `json:"ok"`
	RuntimeChangesEnded bool             `json:"runtime_changes_ended,omitempty"`
	Warnings            []health.Warning `json:"warnings,omitempty"`
}

func newAgentStopCommand(opts *options) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:        "stop",
		SuggestFor: []string{"kill", "quit", "down"},
		Short:      "Stop the agent; with --remove, remove its programs, too",
		Long: `Stop the agent. Packets keep their treatment, unless --remove is given: then the
programs are removed from every interface, and counters are lost. --remove also
works when no agent runs. It warns if tunnels ended at this node: nodes that
still tunnel here lose their traced packets. An agent that is starting is
stopped when it has started.`,
		Args: commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			late := fmt.Errorf("the agent has not stopped within %v; its log says why", stopTimeout)
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), stopTimeout, late)
			defer cancel()
			err := stopAgent(ctx, cmd, opts, remove)
			if errors.Is(err, context.DeadlineExceeded) {
				return context.Cause(ctx)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "detach the programs and remove everything that is pinned")
	return cmd
}

// stopResult is the JSON of agent stop.
type stopResult struct {
	OK       bool             `json:"ok"`
	Removed  bool             `json:"removed"`
	Warnings []health.Warning `json:"warnings"`
}

func stopAgent(ctx context.Context, cmd *cobra.Command, opts *options, remove bool) error {
	socket, err := opts.socketPath()
	if err != nil {
		return err
	}
	result := stopResult{OK: true, Removed: remove}
	own := opts.socket == ""
	answer, err := stopOrWait(ctx, socket, own, remove)
	result.Warnings = answer.Warnings
	switch {
	case errors.Is(err, api.ErrNoAgent) && remove && own:
		result.Removed, result.Warnings, err = removeLeftovers(cmd.ErrOrStderr())
		if held, _ := instances.Held(api.Instance{Dir: filepath.Dir(socket)}); err != nil && held { // one began meanwhile
			return stopAgent(ctx, cmd, opts, remove)
		}
	case errors.Is(err, api.ErrNoAgent) && own:
		err = nothingToStop(opts.interfacesLeft())
	case err == nil:
		err = instances.WaitEnded(ctx, api.Instance{Dir: filepath.Dir(socket)})
	}
	switch {
	case !opts.JSON:
		return errors.Join(err, printWarnings(cmd.ErrOrStderr(), result.Warnings))
	case err != nil:
		return err
	}
	result.Warnings = append([]health.Warning{}, result.Warnings...) // [] instead of null
	return commandline.PrintJSON(cmd.OutOrStdout(), result)
}

// stopOrWait asks the agent to stop. One that is starting does not answer yet, but holds the lock of its
// instance, if that is known: it is asked again until it answers.
func stopOrWait(ctx context.Context, socket string, own, remove bool) (api.Stopped, error) {
	client := api.NewClient(socket)
	for {
		answer, err := client.Stop(ctx, api.Stop{Remove: remove})
		if !errors.Is(err, api.ErrNoAgent) || !own {
			return answer, err
		}
		if held, unknown := instances.Held(api.Instance{Dir: filepath.Dir(socket)}); unknown != nil || !held {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(startPoll):
		}
	}
}

// startPoll is how often an agent that is starting is asked again.
const startPoll = 50 * time.Millisecond

// nothingToStop is the error that no agent runs, with the interfaces on which the last
// one left its programs.
func nothingToStop(left []string) error {
	if len(left) == 0 {
		return errors.New("no agent runs in this network namespace")
	}
	return problem.New(
		"no agent runs in this network namespace, but the programs of the last one still treat the packets on "+strings.Join(left, ", "),
		"remove them with 'waymark agent stop --remove'",
	)
}

// removeLeftovers removes the state of an agent that no longer runs.
func removeLeftovers(stderr io.Writer) (removed bool, ws []health.Warning, err error) {
	instance, err := api.Here()
	if err != nil {
		return false, nil, err
	}
	removed, ws, err = instances.Remove(instance, func(pins string) (instances.Removable, error) {
		return datapath.Open(datapath.Options{PinPath: pins})
	})
	if err == nil && !removed {
		fmt.Fprintln(stderr, "waymark: no agent runs in this network namespace, and none has left anything")
	}
	return removed, ws, err
}

func newAgentConfigCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print the running configuration, with changes made at runtime",
		Args:  commandline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := opts.client()
			if err != nil {
				return err
			}
			yaml, err := c.Config(cmd.Context())
			if err != nil {
				return err
			}
			if opts.JSON {
				running, err := config.Parse("running", yaml)
				if err != nil {
					return err
				}
				return commandline.PrintJSON(cmd.OutOrStdout(), running)
			}
			_, err = cmd.OutOrStdout().Write(yaml)
			return err
		},
	}
}
