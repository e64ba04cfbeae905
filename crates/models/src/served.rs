//! Which models a provider on this machine serves, such as Ollama or llama.cpp's server: a request to its list of models.

use std::net::IpAddr;
use std::time::Duration;

use serde::Deserialize;

/// How long such a provider may take to accept a connection, and then to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The answer to `GET /v1/models`, as far as it is used.
#[derive(Deserialize)]
struct ServedModels {
    data: Vec<ServedModel>,
}

#[derive(Deserialize)]
struct ServedModel {
    id: String,
}

/// Whether an address is on this machine or in its private network, so that a request to it costs nothing.
pub fn is_nearby(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    let Some(host) = url.host_str() else { return false };
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// The names of the models that the provider at `base_url` serves, sorted; `None` if it does not answer. A provider that
/// answers something else serves no models that are known.
pub async fn list_served_models(base_url: &str) -> Option<Vec<String>> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(ANSWER_TIMEOUT)
        .build()
        .ok()?;
    let response = client.get(format!("{}/models", base_url.trim_end_matches('/'))).send().await.ok()?;
    let body = response.bytes().await.ok()?;
    let served = serde_json::from_slice::<ServedModels>(&body).map(|served| served.data).unwrap_or_default();
    let mut names: Vec<String> = served.into_iter().map(|model| model.id).collect();
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_nearby_are_probed() {
        for near in ["http://127.0.0.1:11434/v1", "http://localhost/v1", "http://[::1]:1/v1", "http://192.168.1.7/v1"] {
            assert!(is_nearby(near), "{near}");
        }
        for far in ["https://api.openai.com/v1", "http://8.8.8.8/v1", "no address"] {
            assert!(!is_nearby(far), "{far}");
        }
    }

    #[tokio::test]
    async fn a_provider_that_is_not_there_serves_nothing() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(list_served_models(&format!("http://{address}/v1")).await, None);
    }
}
