package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"roomd/transport/webhook"
)

type webhookFlags struct {
	Webhook           []receiver    `placeholder:"URL" sep:" " help:"Send every commit of every room to this URL, in requests signed as Standard Webhooks has it. Repeat it for several receivers. Behind a # may stand which commits it wants: https://game.example/roomd#rooms=table-*&kinds=join,leave. It needs --feed and --journal. The log shows the host only."`
	WebhookSecretFile *string       `placeholder:"FILE" help:"File with the secret that signs these requests: whsec_ and 24 to 64 bytes in base64. With several, one in each line, each signs. It is read again when it changes."`
	WebhookTimeout    time.Duration `least:"100ms" live:"" default:"10s" placeholder:"10s" help:"How long a receiver may take to answer. Then the request is sent again."`
}

// maxWebhookTimeout is less than the five minutes for which receivers accept a signature.
const maxWebhookTimeout = time.Minute

func (f *webhookFlags) validate() error {
	receivers := make([]webhook.Receiver, len(f.Webhook))
	for i, r := range f.Webhook {
		receivers[i] = r.Receiver
	}
	if err := webhook.Check(receivers); err != nil {
		return fmt.Errorf("--webhook: %w", err)
	}
	switch {
	case len(f.Webhook) > 0 && f.WebhookSecretFile == nil:
		return errors.New("--webhook needs --webhook-secret-file; make one: echo whsec_$(openssl rand -base64 32) >webhook-secret")
	case len(f.Webhook) == 0 && f.WebhookSecretFile != nil:
		return errors.New("--webhook-secret-file is for --webhook, which is not given")
	case f.WebhookTimeout > maxWebhookTimeout:
		return fmt.Errorf("--webhook-timeout is %v, it must be at most %v", f.WebhookTimeout, maxWebhookTimeout)
	}
	return nil
}

func (f *webhookFlags) webhooks(log *slog.Logger) (cfg webhook.Config, err error) {
	if len(f.Webhook) == 0 {
		return cfg, nil
	}
	cfg.Timeout = f.WebhookTimeout
	if cfg.Secrets, err = webhook.SecretFile(*f.WebhookSecretFile, log); err != nil {
		return cfg, fmt.Errorf("--webhook-secret-file: %w", err)
	}
	for _, r := range f.Webhook {
		cfg.Receivers = append(cfg.Receivers, r.Receiver)
	}
	return cfg, nil
}

// webhookHosts returns the receivers without their possible secrets.
func (f *webhookFlags) webhookHosts() string {
	var hosts []string
	for _, r := range f.Webhook {
		hosts = append(hosts, r.String())
	}
	return strings.Join(hosts, ",")
}

// receiver is the value of the flag --webhook.
type receiver struct{ webhook.Receiver }

// UnmarshalText reads a flag's value for kong.
func (r *receiver) UnmarshalText(text []byte) (err error) {
	r.Receiver, err = webhook.ParseReceiver(string(text))
	return err
}

func (r receiver) String() string { return r.Host() }
