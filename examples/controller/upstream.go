package main

// upstream.go is the client of the API server: client-go, under an identity and trust roots that follow their files.

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/seed45259946/reload"
)

// follow returns config with the live keypair and the live roots of identity in place of its own. New requests use those at
// once; a request in flight, such as a watch, ends where it began.
func follow(config *rest.Config, identity *reload.Reloader) (*rest.Config, error) {
	url, _, err := rest.DefaultServerUrlFor(config) // without its TLS fields a host that says no scheme would become http
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = &tls.Config{ServerName: config.ServerName}
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second} // as client-go does
	transport, err := identity.Transport(base)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Host = url.String()
	config.TLSClientConfig = rest.TLSClientConfig{} // refused beside a Transport
	config.Transport = transport
	return config, nil
}

// client asks the API server for what this program needs. A typed clientset would do as well.
type client struct{ *rest.RESTClient }

func newClient(config *rest.Config) (client, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	return client{c}, err
}

// whoAmI returns the user that the API server takes this request to come from.
func (c client) whoAmI(ctx context.Context) (string, error) {
	var review authenticationv1.SelfSubjectReview
	err := c.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").Body(&review).Do(ctx).Into(&review)
	return review.Status.UserInfo.Username, err
}

// secret returns what is in a Secret.
func (c client) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := c.Get().Namespace(namespace).Resource("secrets").Name(name).Do(ctx).Into(&secret)
	return secret.Data, err
}

// watchSecrets tells of the Secrets of a namespace, and of their changes, until ctx is done or the watch is stopped.
func (c client) watchSecrets(ctx context.Context, namespace string) (watch.Interface, error) {
	return c.Get().Namespace(namespace).Resource("secrets").
		VersionedParams(&metav1.ListOptions{Watch: true}, scheme.ParameterCodec).Watch(ctx)
}
