package main

// This file is a mail server, which takes letters about changes.

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"os"
	"strconv"
	"strings"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

const mailAddress = "127.0.0.1:2525"

// A mailServer takes letters.
type mailServer struct{ *world }

func (w mailServer) serveMail() {
	l, err := net.Listen("tcp", mailAddress)
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go w.takeMail(c)
	}
}

// takeMail speaks SMTP on a connection.
func (w mailServer) takeMail(c net.Conn) {
	defer c.Close()
	in := textproto.NewReader(bufio.NewReader(c))
	say := func(s string) { io.WriteString(c, s+"\r\n") }
	say("220 sim.example")
	to := -1
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb = strings.ToUpper(verb); verb {
		case "EHLO":
			say("250-sim.example\r\n250 8BITMIME")
		case "RCPT":
			_, after, _ := strings.Cut(rest, "<m")
			name, _, _ := strings.Cut(after, "@")
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(w.Followers) {
				say("550 no such mailbox")
				continue
			}
			to = n
			say("250 ok")
		case "DATA":
			say("354 go on")
			b, err := in.ReadDotBytes()
			if err != nil || to < 0 {
				return
			}
			f := w.Followers[to]
			if within(f.Away, w.now()) {
				switch f.Trouble {
				case plan.Lost:
					w.letter(to, string(b))
					return
				case plan.Hangs:
					in.ReadLine()
					return
				case plan.Resets:
					return
				}
				say("451 try later")
				continue
			}
			w.letter(to, string(b))
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default: // MAIL, NOOP, RSET, HELO
			say("250 ok")
		}
	}
}

// letter reads the plain text of a letter.
func (w mailServer) letter(i int, text string) {
	m, err := mail.ReadMessage(strings.NewReader(text))
	body := ""
	if err == nil {
		body, err = plain(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
	}
	if err != nil {
		w.write(plan.Event{Kind: plan.Problem, Who: i, Text: err.Error() + ": " + text})
		return
	}
	w.tell(i, strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n"))
}

func plain(kind, encoding string, body io.Reader) (string, error) {
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(media, "multipart/") {
		for parts := multipart.NewReader(body, params["boundary"]); ; {
			p, err := parts.NextPart()
			if err != nil {
				return "", err
			}
			if strings.HasPrefix(p.Header.Get("Content-Type"), "text/plain") || strings.HasPrefix(p.Header.Get("Content-Type"), "multipart/") {
				return plain(p.Header.Get("Content-Type"), "", p)
			}
		}
	}
	if strings.EqualFold(encoding, "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	b, err := io.ReadAll(body)
	return string(b), err
}
