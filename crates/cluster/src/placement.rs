//! The order in which nodes stand for a name, the same on every node without a message.

use crate::name::{NodeId, StreamName};

/// Sorts candidates by rendezvous hashing (Thaler and Ravishankar, 1998): each node's weight
/// follows from its name and the stream's, and the highest weight comes first. When one node
/// goes, only the streams for which it was first move.
pub fn order(name: &StreamName, candidates: &[NodeId]) -> Vec<NodeId> {
    let mut weighted: Vec<(u64, &NodeId)> = candidates
        .iter()
        .map(|node| (weight(name, node), node))
        .collect();
    weighted.sort_by(|a, b| b.cmp(a));
    weighted.dedup();
    weighted.into_iter().map(|(_, node)| node.clone()).collect()
}

/// FNV-1a over both names, then the finaliser of SplitMix64, since FNV's high bits move little
/// with the last bytes.
fn weight(name: &StreamName, node: &NodeId) -> u64 {
    let bytes = name
        .as_str()
        .bytes()
        .chain([0])
        .chain(node.as_str().bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeId> {
        let names = (0..count).map(|it| format!("node-{it}"));
        names.map(|it| NodeId::new(&it).expect("a name")).collect()
    }

    #[test]
    fn every_node_is_first_for_its_share() {
        let nodes = nodes(10);
        let mut firsts = vec![0; 10];
        for index in 0..5000 {
            let name = StreamName::new(&format!("camera-{index}")).expect("a name");
            let first = &order(&name, &nodes)[0];
            firsts[nodes.iter().position(|it| it == first).expect("listed")] += 1;
        }
        assert!(
            firsts.iter().all(|it| (400..600).contains(it)),
            "{firsts:?}"
        );
    }

    #[test]
    fn a_node_that_goes_moves_its_own_streams_only() {
        let nodes = nodes(5);
        for index in 0..200 {
            let name = StreamName::new(&format!("camera-{index}")).expect("a name");
            let before = order(&name, &nodes);
            let mut turned = nodes.clone();
            turned.reverse();
            assert_eq!(order(&name, &turned), before);
            let left: Vec<NodeId> = nodes[1..].to_vec();
            let mut expected = before.clone();
            expected.retain(|it| *it != nodes[0]);
            assert_eq!(order(&name, &left), expected);
        }
    }
}
