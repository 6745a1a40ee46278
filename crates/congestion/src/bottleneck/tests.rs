use super::*;
use crate::copa::{self, Copa};

/// A path with 400 ms of buffer, which is too much.
const HOME: Bottleneck = PLAIN;

fn alone(bottleneck: Bottleneck, algorithm: Algorithm) -> Sender {
    let mut senders = [Sender::bulk(algorithm)];
    bottleneck.run(&mut senders, 30, 1);
    let [sender] = senders;
    sender
}

#[test]
fn every_controller_fills_the_pipe_alone() {
    for algorithm in Algorithm::ALL {
        let sender = alone(HOME, algorithm);
        let found = goodput(&sender, 30);
        assert!(found > 9.0, "{algorithm}: {found} Mbit/s");
    }
}

#[test]
fn copa_keeps_the_queue_that_delta_says_and_cubic_fills_it() {
    let cubic = queue_ms(&mut alone(HOME, Algorithm::Cubic), 0.5);
    let copa = queue_ms(&mut alone(HOME, Algorithm::Copa), 0.5);
    let paper = queue_ms(&mut alone(HOME, Algorithm::CopaCompetitive), 0.5);
    println!("median queue: cubic {cubic} ms, copa {copa} ms, paper's {paper} ms");
    assert!(cubic > 150, "{cubic}");
    // 25 packets are 24 ms here; the window swings around that.
    assert!((5..=60).contains(&copa), "{copa}");
    assert!(paper <= 15, "{paper}");
}

#[test]
fn cubic_shares_with_cubic() {
    let mut senders = [
        Sender::bulk(Algorithm::Cubic),
        Sender::bulk(Algorithm::Cubic),
    ];
    HOME.run(&mut senders, 90, 2);
    let shares = [goodput(&senders[0], 90), goodput(&senders[1], 90)];
    let fairness = shares[0].min(shares[1]) / shares[0].max(shares[1]);
    assert!(fairness > 0.6, "{shares:?}");
}

#[test]
fn random_loss_stops_cubic_and_not_copa() {
    let wifi = Bottleneck {
        loss: 0.02,
        mbps: 4.0,
        ..HOME
    };
    let cubic = goodput(&alone(wifi, Algorithm::Cubic), 30);
    let copa = goodput(&alone(wifi, Algorithm::Copa), 30);
    println!("2 % loss on 4 Mbit/s: cubic {cubic:.2}, copa {copa:.2}");
    assert!(cubic < 2.5, "{cubic}");
    assert!(copa > 3.4, "{copa}");
}

#[test]
fn the_competitive_mode_gets_more_beside_cubic_than_its_delta_would() {
    let share = |config: copa::Config| {
        let controller = Box::new(Copa::new(config, PACKET));
        let mut senders = [Sender::with(controller), Sender::bulk(Algorithm::Cubic)];
        HOME.run(&mut senders, 60, 3);
        goodput(&senders[0], 60)
    };
    let competitive = copa::Config::competitive();
    let meek = share(copa::Config {
        competes: false,
        ..competitive
    });
    let found = share(competitive);
    println!("beside CUBIC on 10 Mbit/s: {found:.2} with competitive mode, {meek:.2} without");
    assert!(found > 1.5 * meek, "{found} and {meek}");
}

#[test]
fn a_live_stream_does_not_run_its_window_away() {
    for algorithm in Algorithm::ALL {
        let mut senders = [Sender::live(algorithm, 3.0)];
        HOME.run(&mut senders, 30, 4);
        let sender = &senders[0];
        let (window, found) = (sender.flow.window(), goodput(sender, 30));
        assert!(found > 2.9, "{algorithm}: {found}");
        assert!(window < 500_000, "{algorithm}: {window} bytes");
        let rate = sender.flow.deliverable_rate().expect("measured").mbps();
        assert!((2.5..40.0).contains(&rate), "{algorithm}: {rate}");
    }
}
