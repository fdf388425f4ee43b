// Command quic keeps a QUIC tunnel open while the keypairs at both of its ends are replaced.
//
// It is server and client in one, with two throw-away CAs and a volume such as a kubelet mounts at each end. Every few
// seconds it replaces a leaf, or the CA of the server, or it withdraws the CA of the client, and shows what the tunnel that
// was there from the start makes of it, and what new ones do: which leaf they see, and whether they resume a session, with
// data in their first packet (0-RTT). HTTP/3 and HTTP/2 are served from the same keypair.
package main

// main.go reads the command line and decides when it is over.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options is the command line.
type options struct {
	every time.Duration
	limit time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second Ctrl-C ends the process at once
	signal.Ignore(syscall.SIGPIPE) // a reader of our output that leaves is no reason to leave files behind

	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2) // the flag package has said why
	}
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	if err := demonstrate(ctx, o.every); err != nil {
		fmt.Fprintln(os.Stderr, "quic:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("quic", flag.ContinueOnError)
	flags.DurationVar(&o.every, "every", 3*time.Second, "replace something this often")
	flags.DurationVar(&o.limit, "for", 0, "end after this long; 0 is never")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.every <= 0:
		err = errors.New("-every must be positive")
	}
	if err != nil {
		fmt.Fprintln(flags.Output(), err)
		flags.Usage()
	}
	return o, err
}
