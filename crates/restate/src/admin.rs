//! The admin API of a Restate server: the addresses at which it finds workers.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{RestateError, send_json};
use crate::names::RunServices;

/// How long the server may take to find the services at an address. It waits longer for workers that accept a connection and
/// do not answer, because they hang or because their machine does.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(4);

/// The admin API of a server.
#[derive(Clone, Debug)]
pub struct RestateAdmin {
    http: reqwest::Client,
    address: String,
}

/// An address at which a server finds services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Deployment {
    /// Its id.
    pub id: String,
    /// The address. Restate ends it with a slash.
    #[serde(default)]
    uri: String,
    services: Vec<DeployedService>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct DeployedService {
    name: String,
}

#[derive(Deserialize)]
struct DeploymentList {
    deployments: Vec<Deployment>,
}

impl Deployment {
    /// The address.
    pub fn address(&self) -> &str {
        self.uri.trim_end_matches('/')
    }

    /// Whether it has the workflow of runs.
    pub fn has_services(&self, services: &RunServices) -> bool {
        has_workflow(&self.services, services)
    }
}

/// The services that a server finds at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// No worker.
    Nobody,
    /// Workers with the services that were looked for.
    Services,
    /// Workers with other services.
    OtherServices,
}

fn has_workflow(deployed: &[DeployedService], services: &RunServices) -> bool {
    let workflow = services.workflow_name();
    deployed.iter().any(|service| service.name == workflow)
}

impl RestateAdmin {
    /// The admin API at this address.
    pub fn new(address: &str) -> RestateAdmin {
        RestateAdmin { http: crate::client::build_http(), address: address.trim_end_matches('/').to_owned() }
    }

    /// Registers the services of the workers at an address, in place of those that were registered there. Fails if the
    /// server is not reachable, cannot reach a worker at the address, or refuses.
    pub async fn register_address(&self, worker: &str) -> Result<(), RestateError> {
        let registered = self.send(Method::POST, "deployments", &json!({"uri": worker, "force": true})).await;
        registered.map(drop).map_err(|error| match error {
            // The request is in order, but nothing that answers it is found.
            RestateError::Refused { url, status: 500.., message } => {
                RestateError::WorkerUnreachable { url, worker: worker.to_owned(), message: read_message(&message) }
            }
            error => error,
        })
    }

    /// The addresses that are registered. Fails if the server is not reachable or refuses, or if its answer cannot be
    /// read.
    pub async fn list_deployments(&self) -> Result<Vec<Deployment>, RestateError> {
        let text = self.send(Method::GET, "deployments", &Value::Null).await?;
        let listed = serde_json::from_str::<DeploymentList>(&text);
        listed.map(|list| list.deployments).map_err(|error| self.unreadable_answer(&error))
    }

    /// The deployment that the server finds at an address. Changes nothing. Workers that do not answer are nobody. Fails if the
    /// server is not reachable, or if its answer cannot be read.
    pub async fn look_up_address(&self, worker: &str, services: &RunServices) -> Result<Discovery, RestateError> {
        let look = json!({"uri": worker, "force": true, "dry_run": true});
        let looked = tokio::time::timeout(DISCOVERY_TIMEOUT, self.send(Method::POST, "deployments", &look));
        let Ok(looked) = looked.await else {
            // The server itself answers, so it waits for the workers.
            return self.list_deployments().await.map(|_| Discovery::Nobody);
        };
        match looked {
            Ok(text) => {
                #[derive(Deserialize)]
                struct Found {
                    services: Vec<DeployedService>,
                }
                let found = serde_json::from_str::<Found>(&text).map_err(|error| self.unreadable_answer(&error))?;
                let is_wanted = has_workflow(&found.services, services);
                Ok(if is_wanted { Discovery::Services } else { Discovery::OtherServices })
            }
            Err(RestateError::Refused { .. }) => Ok(Discovery::Nobody),
            Err(error) => Err(error),
        }
    }

    /// Has everything that is sent to a deployment sent to another address. Fails if the server is not reachable, or
    /// refuses.
    pub async fn move_deployment(&self, deployment: &Deployment, worker: &str) -> Result<(), RestateError> {
        let path = format!("deployments/{}", deployment.id);
        self.send(Method::PATCH, &path, &json!({"uri": worker})).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<String, RestateError> {
        let url = format!("{}/{path}", self.address);
        let (status, text) = send_json(&self.http, method, &url, body).await?;
        match status.is_success() {
            true => Ok(text),
            false => Err(RestateError::Refused { url, status: status.as_u16(), message: text }),
        }
    }

    fn unreadable_answer(&self, error: &serde_json::Error) -> RestateError {
        RestateError::Unreachable { url: self.address.clone(), cause: format!("an answer cannot be read: {error}") }
    }
}

/// The message in the body of an error.
fn read_message(body: &str) -> String {
    #[derive(Deserialize)]
    struct ErrorBody {
        message: String,
    }
    serde_json::from_str(body).map_or_else(|_| body.to_owned(), |body: ErrorBody| body.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_names_its_address_and_its_services() {
        let listed = r#"{"deployments":[{"id":"dp_1","uri":"http://10.0.0.1:9080/","protocol_type":"BidiStream",
            "services":[{"name":"FlowSession1-a","revision":1},{"name":"FlowRun1-a","revision":1}]}]}"#;
        let list: DeploymentList = serde_json::from_str(listed).expect("JSON");
        let deployment = &list.deployments[0];
        assert_eq!(deployment.address(), "http://10.0.0.1:9080");
        assert!(deployment.has_services(&RunServices::new(1, "a", "", "")));
        assert!(!deployment.has_services(&RunServices::new(1, "b", "", "")));
    }
}
