/*
 * usrsctp as one end of an association, its time and its packets on a pipe.
 *
 * Reads frames of a type, four bytes of length (least significant first) and so many
 * bytes; answers each with what came of it and an 'E'. It has no thread, no clock and no
 * chance of its own: the library's calls of gettimeofday and read_random end here, so that
 * a run repeats to the byte. Arguments: MTU, buffer in bytes, seed.
 *
 *   in   C connect   L listen   P packet   T milliseconds that passed
 *        S stream(2) unordered(1) policy(1) value(4) message   X stream(2): reset   D shut down
 *   out  P packet   C connected   M stream(2) message   R taken(1)
 *        I streams: the peer reset them   O streams: ours are reset   Z closed
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <usrsctp.h>

#define PORT 5000
#define MESSAGE_MAX (1 << 20)

static int address;
static struct socket *listener, *ends;
static uint8_t *message;
static size_t message_len;
static uint16_t message_stream;

/* Some day in 2020, plus what has passed. */
static uint64_t milliseconds = UINT64_C(1600000000000);
static uint64_t chance;

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
	(void)zone;
	at->tv_sec = milliseconds / 1000;
	at->tv_usec = milliseconds % 1000 * 1000;
	return 0;
}

/* SplitMix64. */
void read_random(void *into, size_t len)
{
	for (uint8_t *at = into; len > 0; len--) {
		uint64_t drawn = chance += UINT64_C(0x9e3779b97f4a7c15);
		drawn = (drawn ^ drawn >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		drawn = (drawn ^ drawn >> 27) * UINT64_C(0x94d049bb133111eb);
		*at++ = (drawn ^ drawn >> 31) >> 56;
	}
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void tell(char type, const void *first, size_t first_len, const void *rest, size_t rest_len)
{
	uint32_t len = first_len + rest_len;
	uint8_t head[5] = {type, len, len >> 8, len >> 16, len >> 24};
	if (fwrite(head, 5, 1, stdout) != 1 ||
	    (first_len && fwrite(first, first_len, 1, stdout) != 1) ||
	    (rest_len && fwrite(rest, rest_len, 1, stdout) != 1))
		exit(0);
}

static int output(void *to, void *packet, size_t len, uint8_t tos, uint8_t df)
{
	(void)to;
	(void)tos;
	(void)df;
	tell('P', packet, len, NULL, 0);
	return 0;
}

static void set(struct socket *at, int option, const void *value, socklen_t len)
{
	if (usrsctp_setsockopt(at, IPPROTO_SCTP, option, value, len) < 0)
		fail("setsockopt");
}

static struct sockaddr_conn place(void)
{
	struct sockaddr_conn at;
	memset(&at, 0, sizeof at);
	at.sconn_family = AF_CONN;
	at.sconn_port = htons(PORT);
	at.sconn_addr = &address;
	return at;
}

/* Only for an address that it knows, which is after it has begun to connect. */
static void limit(struct socket *at, int mtu)
{
	struct sockaddr_conn peer = place();
	struct sctp_paddrparams path;
	memset(&path, 0, sizeof path);
	memcpy(&path.spp_address, &peer, sizeof peer);
	path.spp_flags = SPP_PMTUD_DISABLE;
	path.spp_pathmtu = mtu;
	set(at, SCTP_PEER_ADDR_PARAMS, &path, sizeof path);
}

static void prepare(struct socket *at)
{
	const uint16_t events[] = {SCTP_ASSOC_CHANGE, SCTP_STREAM_RESET_EVENT};
	struct sctp_initmsg init = {.sinit_num_ostreams = 1024, .sinit_max_instreams = 1024};
	struct sctp_assoc_value reset = {
		.assoc_id = SCTP_ALL_ASSOC,
		.assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ};
	int on = 1;

	if (usrsctp_set_non_blocking(at, 1) < 0)
		fail("non-blocking");
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = {
			.se_assoc_id = SCTP_ALL_ASSOC, .se_type = events[i], .se_on = 1};
		set(at, SCTP_EVENT, &event, sizeof event);
	}
	set(at, SCTP_INITMSG, &init, sizeof init);
	set(at, SCTP_ENABLE_STREAM_RESET, &reset, sizeof reset);
	set(at, SCTP_RECVRCVINFO, &on, sizeof on);
	set(at, SCTP_NODELAY, &on, sizeof on);
}

static struct socket *begin(void)
{
	struct sockaddr_conn at = place();
	struct socket *made = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	if (made == NULL)
		fail("socket");
	prepare(made);
	if (usrsctp_bind(made, (struct sockaddr *)&at, sizeof at) < 0)
		fail("bind");
	return made;
}

static void notice(const union sctp_notification *what, size_t len)
{
	if (what->sn_header.sn_type == SCTP_ASSOC_CHANGE) {
		switch (what->sn_assoc_change.sac_state) {
		case SCTP_COMM_UP:
			tell('C', NULL, 0, NULL, 0);
			break;
		case SCTP_COMM_LOST:
		case SCTP_SHUTDOWN_COMP:
		case SCTP_CANT_STR_ASSOC:
			tell('Z', NULL, 0, NULL, 0);
			break;
		}
	} else if (what->sn_header.sn_type == SCTP_STREAM_RESET_EVENT) {
		const struct sctp_stream_reset_event *reset = &what->sn_strreset_event;
		size_t listed = len - offsetof(struct sctp_stream_reset_event, strreset_stream_list);
		if (reset->strreset_flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED))
			return;
		if (reset->strreset_flags & SCTP_STREAM_RESET_INCOMING_SSN)
			tell('I', reset->strreset_stream_list, listed, NULL, 0);
		if (reset->strreset_flags & SCTP_STREAM_RESET_OUTGOING_SSN)
			tell('O', reset->strreset_stream_list, listed, NULL, 0);
	}
}

static void drain(int mtu)
{
	if (listener != NULL && ends == NULL) {
		ends = usrsctp_accept(listener, NULL, NULL);
		if (ends != NULL) {
			prepare(ends);
			limit(ends, mtu);
		}
	}
	while (ends != NULL) {
		struct sockaddr_conn from;
		struct sctp_rcvinfo info;
		socklen_t from_len = sizeof from, info_len = sizeof info;
		unsigned int type = 0;
		int flags = 0;
		if (message_len == MESSAGE_MAX)
			fail("a message is too large");
		ssize_t got = usrsctp_recvv(ends, message + message_len, MESSAGE_MAX - message_len,
					    (struct sockaddr *)&from, &from_len, &info, &info_len,
					    &type, &flags);
		if (got <= 0)
			return;
		if (flags & MSG_NOTIFICATION) {
			notice((union sctp_notification *)(message + message_len), got);
			continue;
		}
		message_len += got;
		if (type == SCTP_RECVV_RCVINFO)
			message_stream = info.rcv_sid;
		if (flags & MSG_EOR) {
			uint8_t stream[2] = {message_stream, message_stream >> 8};
			tell('M', stream, 2, message, message_len);
			message_len = 0;
		}
	}
}

static uint32_t u32(const uint8_t *at)
{
	return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

static void give(const uint8_t *frame, size_t len)
{
	struct sctp_sendv_spa how;
	uint8_t taken = 0;
	memset(&how, 0, sizeof how);
	how.sendv_flags = SCTP_SEND_SNDINFO_VALID;
	how.sendv_sndinfo.snd_sid = frame[0] | frame[1] << 8;
	how.sendv_sndinfo.snd_ppid = htonl(53);
	how.sendv_sndinfo.snd_flags = frame[2] ? SCTP_UNORDERED : 0;
	if (frame[3] != 0) {
		how.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		how.sendv_prinfo.pr_policy = frame[3] == 1 ? SCTP_PR_SCTP_RTX : SCTP_PR_SCTP_TTL;
		how.sendv_prinfo.pr_value = u32(frame + 4);
	}
	if (ends != NULL) {
		ssize_t sent = usrsctp_sendv(ends, frame + 8, len - 8, NULL, 0, &how, sizeof how,
					     SCTP_SENDV_SPA, 0);
		taken = sent == (ssize_t)(len - 8);
	}
	tell('R', &taken, 1, NULL, 0);
}

static void reset(uint16_t stream)
{
	struct {
		struct sctp_reset_streams head;
		uint16_t list;
	} asked;
	memset(&asked, 0, sizeof asked);
	asked.head.srs_flags = SCTP_STREAM_RESET_OUTGOING;
	asked.head.srs_number_streams = 1;
	asked.head.srs_stream_list[0] = stream;
	set(ends, SCTP_RESET_STREAMS, &asked, sizeof(struct sctp_reset_streams) + sizeof(uint16_t));
}

static void act(char type, const uint8_t *frame, size_t len, int mtu)
{
	struct sockaddr_conn at = place();
	switch (type) {
	case 'L':
		listener = begin();
		if (usrsctp_listen(listener, 1) < 0)
			fail("listen");
		break;
	case 'C':
		ends = begin();
		if (usrsctp_connect(ends, (struct sockaddr *)&at, sizeof at) < 0 && errno != EINPROGRESS)
			fail("connect");
		limit(ends, mtu);
		break;
	case 'P':
		usrsctp_conninput(&address, frame, len, 0);
		break;
	case 'T':
		milliseconds += u32(frame);
		usrsctp_handle_timers(u32(frame));
		break;
	case 'S':
		give(frame, len);
		break;
	case 'X':
		reset(frame[0] | frame[1] << 8);
		break;
	case 'D':
		usrsctp_shutdown(ends, SHUT_WR);
		break;
	}
}

int main(int count, char **words)
{
	static uint8_t frame[MESSAGE_MAX + 64];
	int mtu = count > 1 ? atoi(words[1]) : 1160;
	int buffer = count > 2 ? atoi(words[2]) : 4 << 20;
	chance = count > 3 ? strtoull(words[3], NULL, 10) : 0;
	message = malloc(MESSAGE_MAX);
	if (message == NULL)
		fail("memory");
	usrsctp_init_nothreads(0, output, NULL);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	usrsctp_sysctl_set_sctp_sendspace(buffer);
	usrsctp_sysctl_set_sctp_recvspace(buffer);
	usrsctp_register_address(&address);
	for (;;) {
		uint8_t head[5];
		if (fread(head, 5, 1, stdin) != 1)
			return 0;
		uint32_t len = u32(head + 1);
		if (len > sizeof frame || (len > 0 && fread(frame, len, 1, stdin) != 1))
			return 1;
		act(head[0], frame, len, mtu);
		drain(mtu);
		tell('E', NULL, 0, NULL, 0);
		fflush(stdout);
	}
}
