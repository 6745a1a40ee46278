use std::io::{self, IoSlice};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use glassline_net::thread_cpu;

use super::frame::FrameSource;
use super::readers::{Readers, Received, Watch};
use super::system_calls::{self, MemoryFile, Pipe, Ring, Shared, ZeroCopy};
use super::{Error, Experiment, Method, Round, Shape, WARM_UP};

/// Outcome of measuring a method.
pub(super) enum Outcome {
    Measured(Round),
    /// The run was stopped meanwhile.
    Stopped,
    /// The machine does not support the method, for this reason.
    Unavailable(String),
}

/// Send buffer of each connection, in bytes: about forty frames of 3 Mbit/s, so that a reader
/// that waits for a core is not taken for a slow one.
const SEND_BUFFER_BYTES: usize = 512 << 10;

/// Number of frames in the memory file: two seconds at 30 per second, until which a reader must
/// have read a frame.
const FILE_FRAMES: u64 = 64;

/// Measures `method` on connections of its own.
pub(super) fn measure(
    experiment: &Experiment,
    method: Method,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let warm_up = experiment.frames(WARM_UP);
    let measured = experiment.frames(experiment.duration);
    let (near, far) = connect(experiment.clients, method)?;
    let watch = Watch {
        shape: experiment.shape(),
        interval: experiment.interval(),
        first_number: warm_up,
    };
    let readers = Readers::start(far, watch)?;
    // A thread of its own, so that its processor clock counts nothing else.
    let sent = thread::scope(|scope| {
        let send = || send_paced(method, near, &watch, warm_up + measured, stop);
        let thread = thread::Builder::new().name("sender".to_owned());
        let thread = thread.spawn_scoped(scope, send).map_err(Error::Thread)?;
        // A panic of the thread was printed already.
        Ok(thread.join().unwrap_or(Ok(ThreadOutcome::Stopped)))
    })?;
    let received = readers.finish();
    let due = u64::from(measured) * experiment.clients as u64;
    match sent.map_err(|error| Error::Send { method, error })? {
        ThreadOutcome::Sent(sent) => {
            Ok(Outcome::Measured(round(&sent, &received, due, watch.shape)))
        }
        ThreadOutcome::Stopped => Ok(Outcome::Stopped),
        ThreadOutcome::Unavailable(reason) => Ok(Outcome::Unavailable(reason)),
    }
}

/// Opens the connections; returns the sending ends, which are non-blocking, and the receiving
/// ends.
fn connect(clients: usize, method: Method) -> Result<(Vec<TcpStream>, Vec<TcpStream>), Error> {
    let pairs = || -> io::Result<_> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..clients {
            far.push(TcpStream::connect(address)?);
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(true)?;
            socket.set_nodelay(method.is_nodelay())?;
            system_calls::set_send_buffer(&socket, SEND_BUFFER_BYTES)?;
            near.push(socket);
        }
        Ok((near, far))
    };
    pairs().map_err(Error::Connect)
}

/// Result of the sending thread.
enum ThreadOutcome {
    Sent(Sent),
    Stopped,
    Unavailable(String),
}

/// Sends `frames` frames, each at its time.
fn send_paced(
    method: Method,
    sockets: Vec<TcpStream>,
    watch: &Watch,
    frames: u32,
    stop: &AtomicBool,
) -> io::Result<ThreadOutcome> {
    // Made in this thread, since a ring belongs to the thread that made it.
    let mut sender = match Sender::new(method, sockets, watch.shape) {
        Ok(sender) => sender,
        Err(error) => return Ok(ThreadOutcome::Unavailable(error.to_string())),
    };
    let mut source = FrameSource::new(watch.shape);
    let start = Instant::now();
    let mut cpu = thread_cpu();
    for number in 0..frames {
        if number == watch.first_number {
            sender.account = Account::default();
            source.copied_bytes = 0;
            cpu = thread_cpu();
        }
        let due = start + watch.interval * number;
        let now = Instant::now();
        match due.checked_duration_since(now) {
            Some(left) => thread::sleep(left),
            // A sender that is late by a whole frame has missed it.
            None if now - due > watch.interval => continue,
            None => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(ThreadOutcome::Stopped);
        }
        source.renew(number);
        sender.send(&mut source)?;
    }
    let cpu = thread_cpu().saturating_sub(cpu);
    let mut account = sender.account;
    account.copied_bytes += source.copied_bytes;
    Ok(ThreadOutcome::Sent(Sent { account, cpu }))
}

/// Resources that sending took.
struct Sent {
    account: Account,
    cpu: Duration,
}

/// Counts of a sender.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    system_calls: u64,
    /// Bytes that the kernel accepted.
    bytes: u64,
    /// Bytes copied outside of the kernel, or into a memory file.
    copied_bytes: u64,
    /// Zero-copy sends that are complete.
    completed: u64,
    /// Completed zero-copy sends whose data was copied after all.
    copied_anyway: u64,
}

fn round(sent: &Sent, received: &Received, due: u64, shape: Shape) -> Round {
    let Account {
        system_calls,
        bytes,
        copied_bytes,
        completed,
        copied_anyway,
    } = sent.account;
    let packets = (bytes as f64 / shape.packet_bytes as f64).max(1.0);
    let gaps = received.gaps.summary();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    Round {
        cpu_ns_per_packet: sent.cpu.as_nanos() as f64 / packets,
        system_calls_per_packet: system_calls as f64 / packets,
        copied_bytes_per_byte: copied_bytes as f64 / bytes.max(1) as f64,
        gap_p50_ms: milliseconds(gaps.p50),
        gap_p99_ms: milliseconds(gaps.p99),
        gap_max_ms: milliseconds(gaps.max),
        delivered_ratio: received.frames as f64 / due.max(1) as f64,
        frames_damaged: received.damaged,
        zero_copy_copied_ratio: (completed > 0).then(|| copied_anyway as f64 / completed as f64),
    }
}

/// The sending ends, with what the method needs in addition.
struct Sender {
    method: Method,
    clients: Vec<Client>,
    extra: Extra,
    shape: Shape,
    account: Account,
}

struct Client {
    socket: TcpStream,
    /// A frame that the kernel accepted in part, and how many bytes it accepted.
    rest: Option<(Shared, usize)>,
    zero_copy: Option<ZeroCopy>,
}

enum Extra {
    Nothing,
    File {
        file: MemoryFile,
        pipe: Option<Pipe>,
    },
    Ring(Box<Ring>),
}

impl Sender {
    /// Opens what `method` needs; fails where the machine does not support it.
    fn new(method: Method, sockets: Vec<TcpStream>, shape: Shape) -> io::Result<Self> {
        let extra = match method {
            Method::SendfileFrame => Extra::File {
                file: MemoryFile::new()?,
                pipe: None,
            },
            Method::SpliceFrame => Extra::File {
                file: MemoryFile::new()?,
                pipe: Some(Pipe::new()?),
            },
            Method::UringFrame => Extra::Ring(Box::new(Ring::new(&sockets, false)?)),
            Method::UringZeroCopyFrame => Extra::Ring(Box::new(Ring::new(&sockets, true)?)),
            _ => Extra::Nothing,
        };
        let client = |socket: TcpStream| {
            let zero_copy = match method {
                Method::ZeroCopyFrame => Some(ZeroCopy::enable(&socket)?),
                _ => None,
            };
            Ok(Client {
                socket,
                rest: None,
                zero_copy,
            })
        };
        let clients = sockets.into_iter().map(client).collect::<io::Result<_>>()?;
        Ok(Self {
            method,
            clients,
            extra,
            shape,
            account: Account::default(),
        })
    }

    /// Sends a frame to all clients that have accepted the one before completely.
    fn send(&mut self, source: &mut FrameSource) -> io::Result<()> {
        self.prepare(source)?;
        if let Extra::Ring(ring) = &mut self.extra {
            let account = &mut self.account;
            return send_by_ring(ring, &mut self.clients, source, account);
        }
        for client in &mut self.clients {
            if let Some(zero_copy) = &mut client.zero_copy {
                reap(zero_copy, &client.socket, &mut self.account)?;
            }
            if !client.finish_rest(&mut self.account)? {
                continue;
            }
            let mut call = PendingSend {
                socket: &client.socket,
                account: &mut self.account,
                taken: 0,
            };
            match (&mut self.extra, &mut client.zero_copy) {
                (Extra::File { file, pipe }, _) => {
                    call.of_file(file, pipe.as_mut(), source.number(), self.shape)?;
                }
                (_, Some(zero_copy)) => {
                    let frame = source.framed();
                    call.zero_copy(zero_copy, &frame)?;
                }
                _ => call.by(self.method, source)?,
            }
            let taken = call.taken;
            if taken > 0 && taken < self.shape.frame_bytes() {
                client.rest = Some((source.framed(), taken));
            }
        }
        Ok(())
    }

    /// Does the work that is done once per frame.
    fn prepare(&mut self, source: &mut FrameSource) -> io::Result<()> {
        if let Extra::File { file, .. } = &self.extra {
            let offset = file_offset(source.number(), self.shape);
            file.write(&source.framed(), offset)?;
            self.account.system_calls += 1;
            self.account.copied_bytes += self.shape.frame_bytes() as u64;
        } else if self.method.is_framed() {
            source.framed();
        }
        Ok(())
    }
}

fn file_offset(number: u32, shape: Shape) -> u64 {
    u64::from(number) % FILE_FRAMES * shape.frame_bytes() as u64
}

impl Client {
    /// Sends the rest of an earlier frame; returns whether nothing is left of it.
    fn finish_rest(&mut self, account: &mut Account) -> io::Result<bool> {
        let Some((frame, taken)) = &mut self.rest else {
            return Ok(true);
        };
        let mut call = PendingSend {
            socket: &self.socket,
            account,
            taken: 0,
        };
        call.took(system_calls::send(&self.socket, &frame[*taken..]))?;
        *taken += call.taken;
        if *taken == frame.len() {
            self.rest = None;
        }
        Ok(self.rest.is_none())
    }
}

fn send_by_ring(
    ring: &mut Ring,
    clients: &mut [Client],
    source: &mut FrameSource,
    account: &mut Account,
) -> io::Result<()> {
    let frame = source.framed();
    let mut ready = Vec::with_capacity(clients.len());
    for (index, client) in clients.iter_mut().enumerate() {
        if client.finish_rest(account)? {
            ready.push(index);
        }
    }
    let (calls, copied) = (ring.system_calls, ring.copied);
    let mut failure = None;
    let sent = ready.len() as u64;
    ring.send(ready, &frame, |done| match done.result {
        Ok(taken) => {
            account.bytes += taken as u64;
            if taken > 0 && taken < frame.len() {
                clients[done.socket].rest = Some((Shared::clone(&frame), taken));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => failure = Some(error),
    })?;
    account.system_calls += ring.system_calls - calls;
    if ring.is_zero_copy() {
        account.completed += sent;
        account.copied_anyway += ring.copied - copied;
    }
    failure.map_or(Ok(()), Err)
}

/// Reads completions from the error queue, without waiting.
fn reap(zero_copy: &mut ZeroCopy, socket: &TcpStream, account: &mut Account) -> io::Result<()> {
    while zero_copy.under_way() > 0 {
        account.system_calls += 1;
        let Some(reaped) = zero_copy.reap(socket)? else {
            break;
        };
        account.completed += u64::from(reaped.completed);
        account.copied_anyway += u64::from(reaped.copied);
    }
    Ok(())
}

/// A frame that is being sent to one connection.
struct PendingSend<'a> {
    socket: &'a TcpStream,
    account: &'a mut Account,
    /// Bytes of the frame that are sent.
    taken: usize,
}

impl PendingSend<'_> {
    /// Counts one system call; returns how many bytes it took.
    fn took(&mut self, result: io::Result<usize>) -> io::Result<usize> {
        self.account.system_calls += 1;
        match result {
            Ok(count) => {
                self.taken += count;
                self.account.bytes += count as u64;
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Sends the frame by a method that needs nothing in addition.
    fn by(&mut self, method: Method, source: &mut FrameSource) -> io::Result<()> {
        match method {
            Method::TwoSends | Method::TwoSendsNagle => self.two_sends(source, false),
            Method::TwoSendsMore => self.two_sends(source, true),
            Method::WritevPacket => self.gathered_packets(source),
            Method::WritevFrame => self.gathered_frame(source),
            Method::Cork => {
                self.set_cork(true)?;
                let sent = self.framed_packets(source);
                self.set_cork(false)?;
                sent
            }
            Method::SendPacket => self.framed_packets(source),
            _ => {
                let frame = source.framed();
                self.took(system_calls::send(self.socket, &frame)).map(drop)
            }
        }
    }

    fn two_sends(&mut self, source: &FrameSource, with_more: bool) -> io::Result<()> {
        let mut packets = source.packets().peekable();
        while let Some(packet) = packets.next() {
            let is_last = packets.peek().is_none();
            let pieces = [(&source.framing()[..], true), (packet, !is_last)];
            for (piece, more) in pieces {
                let result = if with_more && more {
                    system_calls::send_more(self.socket, piece)
                } else {
                    system_calls::send(self.socket, piece)
                };
                if self.took(result)? < piece.len() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn gathered_packets(&mut self, source: &FrameSource) -> io::Result<()> {
        for packet in source.packets() {
            let parts = [IoSlice::new(source.framing()), IoSlice::new(packet)];
            let length = source.framing().len() + packet.len();
            if self.took(system_calls::send_parts(self.socket, &parts))? < length {
                break;
            }
        }
        Ok(())
    }

    fn gathered_frame(&mut self, source: &FrameSource) -> io::Result<()> {
        let framing = source.framing();
        let parts: Vec<_> = source
            .packets()
            .flat_map(|packet| [IoSlice::new(framing), IoSlice::new(packet)])
            .collect();
        self.took(system_calls::send_parts(self.socket, &parts))
            .map(drop)
    }

    fn framed_packets(&mut self, source: &mut FrameSource) -> io::Result<()> {
        let frame = source.framed();
        let packet_bytes = frame.len() / source.packets().count().max(1);
        for packet in frame.chunks(packet_bytes) {
            if self.took(system_calls::send(self.socket, packet))? < packet.len() {
                break;
            }
        }
        Ok(())
    }

    fn set_cork(&mut self, corked: bool) -> io::Result<()> {
        self.account.system_calls += 1;
        system_calls::cork(self.socket, corked)
    }

    fn zero_copy(&mut self, zero_copy: &mut ZeroCopy, frame: &Shared) -> io::Result<()> {
        match self.took(zero_copy.send(self.socket, frame, 0)) {
            // More zero-copy data is in flight than the socket may have: this frame is copied.
            Err(error) if system_calls::is_no_buffers(&error) => {
                self.took(system_calls::send(self.socket, frame)).map(drop)
            }
            result => result.map(drop),
        }
    }

    fn of_file(
        &mut self,
        file: &MemoryFile,
        pipe: Option<&mut Pipe>,
        number: u32,
        shape: Shape,
    ) -> io::Result<()> {
        let (offset, length) = (file_offset(number, shape), shape.frame_bytes());
        let Some(pipe) = pipe else {
            return self.took(file.send(self.socket, offset, length)).map(drop);
        };
        while self.taken < length {
            let at = offset + self.taken as u64;
            let filled = pipe.fill(file, at, length - self.taken)?;
            self.account.system_calls += 1;
            if self.took(pipe.send(self.socket, filled))? < filled {
                // The pipe's content is dropped, and sent as the rest of the frame.
                *pipe = Pipe::new()?;
                break;
            }
        }
        Ok(())
    }
}
