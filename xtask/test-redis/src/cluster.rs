//! Three masters that share the slots.

use std::net::TcpListener;
use std::process::Command;

use crate::{Server, ran};

/// Three servers in cluster mode, without replicas.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    server: Server,
    port: u16,
}

impl Cluster {
    /// Starts them and divides the slots.
    ///
    /// # Panics
    /// Where Redis is not installed or does not start, with its own words.
    pub fn start() -> Self {
        let cluster = Self { nodes: (0..3).map(|_| Node::start()).collect() };
        let mut create = Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(cluster.nodes.iter().map(Node::address));
        ran(create.arg("--cluster-yes"));
        while !cluster.nodes.iter().all(Node::knows_all) {
            std::thread::yield_now();
        }
        cluster
    }

    /// Its connection string: one node, which tells of the others.
    pub fn url(&self) -> String {
        format!("redis://{}", self.nodes[0].address())
    }

    /// Runs a command wherever its key belongs, and returns the answer as `redis-cli` prints it.
    ///
    /// # Panics
    /// If the server refuses, with its words.
    pub fn query(&self, command: &[&str]) -> String {
        ran(Command::new("redis-cli").args(["-c", "-e", "-p", &self.nodes[0].port.to_string()]).args(command))
    }

    /// Runs a command on each node.
    ///
    /// # Panics
    /// As [`Cluster::query`].
    pub fn query_each(&self, command: &[&str]) -> Vec<String> {
        self.nodes.iter().map(|node| node.query(command)).collect()
    }

    /// One of its nodes, 0 to 2.
    pub fn node(&self, number: usize) -> &Server {
        &self.nodes[number].server
    }
}

impl Node {
    fn start() -> Self {
        let (port, bus) = (free_port(), free_port());
        let lines = [
            "bind 127.0.0.1",
            &format!("port {port}"),
            "cluster-enabled yes",
            &format!("cluster-port {bus}"),
            "databases 1",
        ];
        Self { server: Server::start(&lines), port }
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn query(&self, command: &[&str]) -> String {
        ran(Command::new("redis-cli").args(["-e", "-p", &self.port.to_string()]).args(command))
    }

    fn knows_all(&self) -> bool {
        let info = self.query(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    }
}

/// Free when it was asked; that somebody takes it before the server does fails the test loudly.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback address has free ports");
    listener.local_addr().expect("it is bound").port()
}
