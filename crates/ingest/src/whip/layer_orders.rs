//! The orders to a publisher which of its layers to send, for whoever carries them to it.

use std::sync::Arc;

use tokio::sync::watch;

/// The order for one layer of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerOrder {
    /// RID of the layer.
    pub rid: String,
    /// Whether the publisher should send the layer.
    pub active: bool,
}

/// The orders to one publisher. A layer is paused only while a publisher listens.
#[derive(Debug, Default)]
pub(super) struct LayerOrders(watch::Sender<Arc<[LayerOrder]>>);

/// The publisher's end of the orders, which ends with its session.
#[derive(Debug)]
pub struct LayerOrdersListener {
    orders: watch::Receiver<Arc<[LayerOrder]>>,
    is_new: bool,
}

impl LayerOrders {
    /// Most listeners of one publisher: its page, which listens anew before the server knows that the
    /// former connection is gone.
    const LISTENERS_MAX: usize = 2;

    /// Begins to listen; returns `None` if enough others do.
    pub(super) fn listen(&self) -> Option<LayerOrdersListener> {
        let is_free = self.0.receiver_count() < Self::LISTENERS_MAX;
        is_free.then(|| LayerOrdersListener {
            orders: self.0.subscribe(),
            is_new: true,
        })
    }

    /// Returns whether the publisher listens.
    pub(super) fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Replaces the orders, for those who listen and those who will.
    pub(super) fn replace(&self, orders: Vec<LayerOrder>) {
        self.0.send_replace(orders.into());
    }
}

impl LayerOrdersListener {
    /// Returns the orders: the present ones at first, then each change. Returns `None` once the session has
    /// ended.
    pub async fn next(&mut self) -> Option<Arc<[LayerOrder]>> {
        if !std::mem::take(&mut self.is_new) {
            self.orders.changed().await.ok()?;
        }
        Some(Arc::clone(&self.orders.borrow_and_update()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rid: &str, active: bool) -> LayerOrder {
        let rid = rid.to_owned();
        LayerOrder { rid, active }
    }

    #[tokio::test]
    async fn a_listener_gets_the_present_orders_each_change_and_the_end() {
        let orders = LayerOrders::default();
        assert!(!orders.is_heard());
        orders.replace(vec![order("h", true)]);
        let mut listener = orders.listen().expect("free");
        assert!(orders.is_heard());
        let next = listener.next().await.expect("the present ones");
        assert_eq!(next[..], [order("h", true)]);
        orders.replace(vec![order("h", false)]);
        let next = listener.next().await.expect("the change");
        assert_eq!(next[..], [order("h", false)]);
        let second = orders.listen().expect("a page that comes back");
        assert!(orders.listen().is_none(), "enough listen");
        drop(second);
        assert!(orders.listen().is_some());
        drop(orders);
        assert_eq!(listener.next().await, None);
    }
}
