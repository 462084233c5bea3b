//! A small shop that grows by changing a URL: from memory to a directory, to a server, to a cluster.
//!
//! ```sh
//! cargo run -p loadline-cache --features tokio --example growing -- ram
//! cargo run -p loadline-cache --features tokio --example growing -- store:/tmp/shop
//! cargo run -p loadline-cache --features tokio --example growing -- redis://localhost
//! cargo run -p loadline-cache --features tokio --example growing -- 'cluster://localhost:7000?wait_replicas=1'
//! ```

#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::time::Duration;

use loadline_cache::{AsyncKeyValue, Batch, Error, KeyValue, open, open_async};

const CUSTOMERS: usize = 4;
const ORDERS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ram".to_owned());
    let lines = {
        let store = open(&url)?;
        sell(&*store, "shop")?
    };
    println!("{url}, called from threads");
    lines.iter().for_each(|line| println!("  {line}"));
    let store = open_async(&url).await?;
    println!("{url}, called from tasks");
    let lines = serve(&*store, "shop").await?;
    lines.iter().for_each(|line| println!("  {line}"));
    Ok(())
}

/// Customers, a thread each, buy what there is.
///
/// # Errors
/// Those of the store.
pub(crate) fn sell(store: &dyn KeyValue, shop: &str) -> Result<Vec<String>, Error> {
    let stock = format!("{shop}:stock");
    let items = CUSTOMERS * ORDERS - 3;
    store.put(stock.as_bytes(), items.to_string().as_bytes())?;
    let bought = std::thread::scope(|scope| {
        let customers: Vec<_> = (0..CUSTOMERS)
            .map(|customer| {
                let stock = &stock;
                scope.spawn(move || buy(store, shop, stock, customer))
            })
            .collect();
        let bought = customers.into_iter().map(|thread| match thread.join() {
            Ok(bought) => bought,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        bought.collect::<Result<Vec<usize>, Error>>()
    })?;
    let left = store.get(stock.as_bytes())?;
    let mut orders = 0;
    store.scan(format!("{shop}:{{order:").as_bytes(), &mut |key, _| {
        orders += usize::from(key.ends_with(b":state"));
    })?;
    store.put_for(b"shop:session", b"ann", Duration::from_secs(1_800))?;
    let session = store.get(b"shop:session")?;
    Ok(vec![
        format!(
            "items: {items}, sold: {}, left: {}",
            bought.iter().sum::<usize>(),
            text(left)
        ),
        format!("orders: {orders}"),
        format!("session of half an hour: {}", text(session)),
    ])
}

/// Takes items from the stock, and records an order for each.
fn buy(store: &dyn KeyValue, shop: &str, stock: &str, customer: usize) -> Result<usize, Error> {
    let mut bought = 0;
    for number in 0..ORDERS {
        // Two customers cannot take the same item.
        loop {
            let left = store.get(stock.as_bytes())?;
            let count: usize = text(left.clone()).parse().unwrap_or(0);
            if count == 0 {
                return Ok(bought);
            }
            let next = (count - 1).to_string();
            if store.compare_and_swap(stock.as_bytes(), left.as_deref(), Some(next.as_bytes()))? {
                break;
            }
        }
        store.apply(&order(shop, &format!("{customer}-{number}")))?;
        bought += 1;
    }
    Ok(bought)
}

/// The entries of an order. Its keys have a hash tag, so that they are in one slot of a cluster.
fn order(shop: &str, name: &str) -> Batch {
    let mut batch = Batch::new();
    let key = |field: &str| format!("{shop}:{{order:{name}}}:{field}").into_bytes();
    batch.put(&key("state"), b"paid").put(&key("total"), b"42");
    batch.delete(&key("cart"));
    batch
}

/// The same store from tasks: reads the orders, and removes what the shop put.
///
/// # Errors
/// Those of the store.
pub(crate) async fn serve(store: &dyn AsyncKeyValue, shop: &str) -> Result<Vec<String>, Error> {
    store.apply(&order(shop, "late")).await?;
    let mut keys = Vec::new();
    let prefix = format!("{shop}:");
    store
        .scan(prefix.as_bytes(), &mut |key, _| keys.push(key.to_vec()))
        .await?;
    keys.sort();
    keys.dedup();
    let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = store.get_many(&names).await?;
    let paid = values.iter().flatten().filter(|value| *value == b"paid");
    let paid = paid.count();
    for key in &keys {
        store.delete(key).await?;
    }
    Ok(vec![
        format!("orders paid: {paid}"),
        format!("keys removed: {}", keys.len()),
    ])
}

fn text(value: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
}
